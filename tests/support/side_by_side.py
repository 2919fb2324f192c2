"""What a process of ``benchmarks.worker.in_workers`` does in a test; it needs no Django."""

from __future__ import annotations

import time

from benchmarks.worker import wait_for_others

__all__ = ["take_part"]


def take_part(starting: list[int]) -> list[float]:
    """Return the moments before and after this process waited for the others."""
    ready = time.monotonic()
    wait_for_others(starting)
    return [ready, time.monotonic()]
