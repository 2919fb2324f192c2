"""The progress of a command, on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["Progress"]

# The seconds between two updates, and the width of the bar.
_PAUSE = 0.2
_WIDTH = 30


class Progress:
    """A line that is overwritten again and again on a terminal; nothing is written elsewhere."""

    def __init__(self, stream: Any, account: Callable[[], str], *, quiet: bool = False) -> None:
        """
        Args:
            stream: the command's ``stderr``.
            account: returns the counters so far, as text.
            quiet: write nothing.
        """
        self._stream = stream
        self._account = account
        self._shown = not quiet and stream.isatty()
        self._last = 0.0
        self._chars = 0

    def show(self, done: int = 0, whole: int = 0) -> None:
        """Write the account, after a bar if the total is known.

        Args:
            done: the part of ``whole`` that is done.
            whole: the total; 0 if it is unknown.
        """
        if not self._shown or time.monotonic() - self._last < _PAUSE:
            return
        self._last = time.monotonic()
        line = self._account()
        if whole:
            part = min(1.0, done / whole)
            full = int(_WIDTH * part)
            line = f"[{'#' * full}{'.' * (_WIDTH - full)}] {part:4.0%} {line}"
        self._stream.write(f"\r{line:<{self._chars}}", ending="")
        self._chars = len(line)

    def clear(self) -> None:
        """Delete the line, before something else is written."""
        if self._chars:
            self._stream.write(f"\r{'':<{self._chars}}\r", ending="")
            self._chars = 0
