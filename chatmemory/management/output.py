"""The output of a command: its file, and its progress on a terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError


@contextmanager
def output(path: str | Path | None, stdout: Any) -> Iterator[Any]:
    """Yield a new file that only this user may read; without a path ``stdout``. If anything fails, the file is deleted.

    Raises:
        CommandError: the file exists already, or cannot be written.
    """
    if path is None:
        yield stdout
        return
    try:
        # Never over another file, which may be another person's. Only this user may read the new one.
        file = open(path, "x", encoding="utf-8", newline="\n", opener=partial(os.open, mode=0o600))  # noqa: SIM115
    except FileExistsError:
        raise CommandError(f"--output: {path} exists already; take another name.") from None
    except OSError as error:
        raise CommandError(f"--output: cannot write {path}: {error.strerror}.") from error
    try:
        with file:
            yield file
    except BaseException as error:
        # Half of a file would look like a whole one.
        os.unlink(path)
        if isinstance(error, OSError):
            raise CommandError(f"--output: cannot write {path}: {error.strerror}.") from error
        raise


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: the first column on the left, the others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = (f"  {cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        yield f"{name:<{widths[0]}}{''.join(numbers)}"


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
