"""The progress of a long step."""

from __future__ import annotations

import shutil
from types import TracebackType
from typing import Self

from django.core.management.base import OutputWrapper

__all__ = ["Progress"]


class Progress:
    """A progress bar on a terminal, plain lines everywhere else. Use it in a ``with`` statement."""

    def __init__(self, out: OutputWrapper, total: int) -> None:
        self._out = out
        self._total = total
        self._done = 0
        self._live = out.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live and self._done:
            self._out.write("")

    def advance(self) -> None:
        """Count one more message as done."""
        self._done += 1
        if self._live:
            # ASCII only: not every terminal shows blocks.
            width = max(10, min(40, shutil.get_terminal_size().columns - 30))
            filled = width * self._done // self._total
            self._out.write(f"\r[{'#' * filled:-<{width}}] {self._done}/{self._total} messages", ending="")
            self._out.flush()

    def note(self, line: str) -> None:
        """Write a line, unless the bar is shown."""
        if not self._live:
            self._out.write(line)
            self._out.flush()
