"""The processes of a scenario: their databases, their start, and their end, which leaves none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["Crew", "Process", "configure", "is_quick", "seed", "tell", "versions"]

Process = subprocess.Popen[bytes]


versions: list[str] = []
"""Name and version of this process' databases, for the report: ``"PostgreSQL 15.14"``."""


def configure(databases: dict[str, dict[str, Any]]) -> None:
    """Make ``databases`` those of this process and of all that it starts, and the tables on the default one."""
    os.environ["CHATMEMORY_SOAK_DATABASES"] = _json(databases)
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.soak.settings"
    django.setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    connection.ensure_connection()
    versions.append(f"{connection.display_name} {'.'.join(map(str, connection.get_database_version()))}")


def is_quick() -> bool:
    """Return whether this run shall only show that everything works: then the smallest counts will do."""
    return "CHATMEMORY_SOAK_QUICK" in os.environ


def seed() -> str:
    """Return the seed of every random choice of this run."""
    return os.environ.get("CHATMEMORY_SOAK_SEED", "0")


def tell(text: str) -> None:
    """Print a line of progress on the standard error, for the standard output has the answer."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


class Crew:
    """Processes of ``tests.support.traffic`` that log to ``folder``; at the end none is left."""

    def __init__(self, folder: Path, seed: str | None = None) -> None:
        self.folder = folder
        self._seed = seed
        self._processes: list[Process] = []
        self._names: dict[int, str] = {}

    def __enter__(self) -> Crew:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            self.kill(process)

    def start(
        self,
        role: str,
        name: str,
        count: int,
        conversation: Conversation,
        databases: dict[str, dict[str, Any]] | None = None,
    ) -> Process:
        """Start a process of traffic.

        Args:
            role: what it does, see ``tests.support.traffic``.
            name: its own one; its log is NAME.jsonl, and what it complains about NAME.txt.
            count: how often.
            conversation: where.
            databases: instead of those of this process.
        """
        environment = dict(os.environ)
        if databases is not None:
            environment["CHATMEMORY_SOAK_DATABASES"] = _json(databases)
        given = [role, name, str(count), f"{self._seed or seed()} {name}", str(conversation.pk)]
        command = [sys.executable, "-m", "tests.support.traffic", *given, str(self.folder / f"{name}.jsonl")]
        with self._complaints(name).open("ab") as complaints:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=complaints)
        self._processes.append(process)
        self._names[process.pid] = name
        return process

    def wait_until_ready(self, processes: Iterable[Process]) -> None:
        """Wait until each has read its conversation, and begins."""
        for process in processes:
            stdout: IO[bytes] = process.stdout  # type: ignore[assignment]
            if stdout.readline() != b"ready\n":
                process.wait(timeout=60)
                raise AssertionError(self._died(process))

    def kill(self, process: Process) -> None:
        """Kill a process, and wait for its end."""
        with process:
            process.kill()

    def stop(self) -> None:
        """Stop the processes that run until they are stopped."""
        (self.folder / "stop").touch()

    def finish(self, processes: Iterable[Process], timeout: float = 1_800) -> None:
        """Wait until all have done what they had to.

        Raises:
            AssertionError: one of them failed.
        """
        for process in processes:
            process.wait(timeout=timeout)
            assert process.returncode == 0, self._died(process)

    def _died(self, process: Process) -> str:
        name = self._names[process.pid]
        complaints = self._complaints(name).read_text(errors="replace")[-2_000:]
        return f"{name} ended with {process.returncode}: {complaints}"

    def _complaints(self, name: str) -> Path:
        return self.folder / f"{name}.txt"


def _json(databases: dict[str, dict[str, Any]]) -> str:
    return json.dumps(databases, default=str)
