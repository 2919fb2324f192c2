"""The file to which a command writes."""

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
