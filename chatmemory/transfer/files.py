"""The files that are imported, read a little at a time."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TextIO

from chatmemory.transfer.reports import BadRecordError

__all__ = ["Source", "numbered_lines", "opened"]

# The members of an archive that are read: ChatGPT splits its conversations once there are many.
_MEMBERS = re.compile(r"(.*/)?conversations(-\d+)?\.json")


class Source:
    """A file that is being read, and the position in it."""

    def __init__(self, name: str, text: TextIO, raw: IO[bytes], size: int) -> None:
        self.name = name
        """The name of the file in error messages."""

        self.text = text

        self.size = size
        """The size in bytes."""

        self._raw = raw

    @property
    def read(self) -> int:
        """The number of bytes that have been read."""
        return self._raw.tell()


@contextmanager
def opened(path: Path) -> Iterator[list[Callable[[], Source]]]:
    """Yield functions that open a file, or each file of conversations in a zip archive, to be called one by one.

    Raises:
        BadRecordError: the file cannot be read, or the archive has no conversations.
    """
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as raw:
                yield [lambda: Source(path.name, _text(raw), raw, path.stat().st_size)]
            return
        with zipfile.ZipFile(path) as archive, ExitStack() as members_to_close:
            members = sorted(
                (info for info in archive.infolist() if _MEMBERS.fullmatch(info.filename)),
                key=lambda info: info.filename,
            )
            if not members:
                raise BadRecordError(path.name, "there is no conversations.json in this archive")
            yield [_member(archive, path, info, members_to_close) for info in members]
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadRecordError(str(path), f"cannot be read: {error}") from error


def _member(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo, to_close: ExitStack) -> Callable[[], Source]:
    def open_it() -> Source:
        try:
            raw = archive.open(info)
        except RuntimeError as error:  # a password, or a compression that Python does not know
            problem = f"cannot be read: {error}; unpack it, and import {info.filename}"
            raise BadRecordError(path.name, problem) from error
        text = to_close.enter_context(_text(raw))
        return Source(f"{path.name}/{info.filename}", text, raw, info.file_size)

    return open_it


def _text(raw: IO[bytes]) -> TextIO:
    # Only "\n" ends a line, so that line numbers are those of editors. Bytes that are not UTF-8 become halves of
    # surrogate pairs, which are refused with the place where they stand.
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def numbered_lines(source: Source) -> Iterator[tuple[str, str]]:
    """Yield each line that is not blank, after its place: ``backup.jsonl:17``."""
    for number, line in enumerate(source.text, 1):
        if line.strip():
            yield f"{source.name}:{number}", line
