"""How tests wait for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]

_PATIENCE = 60  # seconds, for what takes milliseconds


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition is true.

    Raises:
        AssertionError: it never is; ``what`` says what that means.
    """
    until = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)
