"""The file that a command writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

__all__ = ["output"]


@contextmanager
def output(path: str | Path | None, stdout: Any) -> Iterator[Any]:
    """Open a new file that nobody else may read, or ``stdout`` without a path. Delete the file if the command fails.

    Raises:
        CommandError: the file is there already, or cannot be written.
    """
    if path is None:
        yield stdout
        return
    try:
        # Never over another file: it may be another person's. What is in it is nobody else's to read.
        file = open(path, "x", encoding="utf-8", newline="\n", opener=partial(os.open, mode=0o600))  # noqa: SIM115
    except FileExistsError:
        raise CommandError(f"--output: {path} exists already; take another name.") from None
    except OSError as error:
        raise CommandError(f"--output: cannot write {path}: {error.strerror}.") from error
    try:
        with file:
            yield file
    except BaseException as error:
        # Half of it would look like all of it.
        os.unlink(path)
        if isinstance(error, OSError):
            raise CommandError(f"--output: cannot write {path}: {error.strerror}.") from error
        raise
