"""Processes of ``tests.support.traffic``, forked from one that has imported all: imports take longer than the work."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from django.db import connection

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["STEPS", "TrafficProcess", "new_barrier"]

STEPS = 4
"""How many acts writers begin together: left to themselves, one is through before the next has a processor."""

_PATIENCE = 300  # seconds, for what takes one

_FORKING = multiprocessing.get_context("forkserver")
# Each process imports what the parent's main program does, which is pytest.
_FORKING.set_forkserver_preload(["pytest", "tests.support.traffic_imports"])


class TrafficProcess:
    """A process that works on one conversation of the test database."""

    def __init__(
        self,
        folder: Path,
        role: str,
        name: str,
        count: int,
        conversation: Conversation,
        options: dict[str, Any] | None = None,
        barrier: Any = None,
    ) -> None:
        """
        Args:
            folder: of its log.
            role: what it does, see ``tests.support.traffic``.
            name: of what it says, and of its log.
            count: how often.
            conversation: the one that it works on.
            options: of its connection.
            barrier: where it waits for the others before each of its first ``STEPS`` acts, from ``new_barrier``.
        """
        self._begun = _FORKING.Event()
        arguments = [role, name, str(count), name, str(conversation.pk), str(folder / f"{name}.jsonl")]
        self._process = _FORKING.Process(
            target=_work, args=(connection.settings_dict["NAME"], options or {}, arguments, self._begun, barrier)
        )
        self._process.start()

    def wait_for_begin(self) -> None:
        """Wait until it begins to work."""
        until = time.monotonic() + _PATIENCE
        while not self._begun.wait(timeout=0.1):
            assert self._process.exitcode is None, f"it ended with {self._process.exitcode}"
            assert time.monotonic() < until, "it does not begin"

    def wait(self, timeout: float) -> int | None:
        """Wait at most ``timeout`` seconds until it ends, and return its exit code; None if it goes on."""
        self._process.join(timeout)
        return self._process.exitcode

    def kill(self) -> None:
        """Kill it, whatever it does."""
        self._process.kill()
        self._process.join()


def new_barrier(writers: int) -> Any:
    """Return what so many processes of the roles ``add`` and ``meddle`` wait at."""
    return _FORKING.Barrier(writers)


def _work(database: Any, options: dict[str, Any], arguments: list[str], begun: Any, barrier: Any) -> None:
    django.setup()  # the modules of this one's start are imported before, or not at all
    from tests.support import traffic

    left = iter(range(STEPS))

    def step() -> None:
        if barrier is not None and next(left, None) is not None:
            barrier.wait(_PATIENCE)

    connection.settings_dict["NAME"] = database
    connection.settings_dict["OPTIONS"] = connection.settings_dict["OPTIONS"] | options
    traffic.work(*arguments, begin=begun.set, step=step)
