"""Forks of this process, as a preforking server has for its workers."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["end", "fork", "outcome"]


def fork(work: Callable[[], object], log: Path) -> int:
    """Start a fork of this process that does ``work`` and ends, and return its process ID.

    Args:
        work: what the fork does, on its own connections.
        log: the file for what it prints, and why it failed.
    """
    from django.db import connections

    connections.close_all()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        work()
        connections.close_all()
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(status)


def outcome(process: int, timeout: float = 600) -> int:
    """Wait for the end of a fork, and return its status, or minus the signal that killed it.

    Raises:
        AssertionError: it did not end in time, and was killed.
    """
    until = time.monotonic() + timeout
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            end([process])
            raise AssertionError(f"a process has not ended after {timeout:g} seconds")
        time.sleep(0.005)


def end(processes: Sequence[int]) -> None:
    """Kill the forks that are left."""
    for process in processes:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
