"""Processes of ``tests.support.traffic``, forked from one that has imported all: imports take longer than the work."""

from __future__ import annotations

import multiprocessing
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import connection

from chatmemory.models import Conversation
from tests.support import traffic

__all__ = ["TrafficProcess"]

_FORKING = multiprocessing.get_context("forkserver")
# Each process imports what the parent's main program does, which is pytest.
_FORKING.set_forkserver_preload(["pytest", "tests.support.traffic_imports"])


class TrafficProcess:
    """A process that works on one conversation of the test database."""

    def __init__(
        self, role: str, name: str, count: int, conversation: Conversation, folder: Path, options: dict[str, Any]
    ) -> None:
        """
        Args:
            role: what it does, see ``tests.support.traffic``.
            name: of what it says, and of its log.
            count: how often.
            conversation: the one that it works on.
            folder: of the log.
            options: of its connection.
        """
        self._begun = _FORKING.Event()
        arguments = [role, name, str(count), name, str(conversation.pk), str(folder / f"{name}.jsonl")]
        self._process = _FORKING.Process(
            target=_work, args=(connection.settings_dict["NAME"], options, arguments, self._begun)
        )
        self._process.start()

    def wait_for_begin(self) -> None:
        """Wait until it begins to work."""
        assert self._begun.wait(timeout=60)

    def wait(self, timeout: float) -> int | None:
        """Wait at most ``timeout`` seconds until it ends, and return its exit code; None if it goes on."""
        self._process.join(timeout)
        return self._process.exitcode

    def kill(self) -> None:
        """Kill it, whatever it does."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.join()


def _work(database: Any, options: dict[str, Any], arguments: list[str], begun: Any) -> None:
    connection.settings_dict["NAME"] = database
    connection.settings_dict["OPTIONS"] = connection.settings_dict["OPTIONS"] | options
    traffic.work(*arguments, begin=begun.set)
