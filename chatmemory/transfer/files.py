"""The files that are imported, read a little at a time."""

from __future__ import annotations

import io
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, TextIO

from chatmemory.transfer.records import BadRecordError

__all__ = [
    "MAX_RECORD_CHARS",
    "MAX_UNPACKED_BYTES",
    "TOO_LONG",
    "Source",
    "numbered_lines",
    "open_sources",
    "read_json",
]

MAX_RECORD_CHARS = 100_000_000
"""The most characters of a line, of an item of an array, or of a document that is read as a whole."""

MAX_UNPACKED_BYTES = 10_000_000_000
"""The most bytes of all files of conversations in an archive, unpacked."""

TOO_LONG = f"has over {MAX_RECORD_CHARS} characters"
"""The problem of a record that is longer than :data:`MAX_RECORD_CHARS`."""

_CHUNK = 1 << 20

_NOT_UTF_8 = re.compile("[\udc80-\udcff]")

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
def open_sources(path: Path, *, archives: bool = False) -> Iterator[list[Callable[[], Source]]]:
    """Yield functions that open a file, or each file of conversations in a zip archive, to be called one by one.

    Args:
        path: the file.
        archives: whether it may be an archive.

    Raises:
        BadRecordError: the file cannot be read, or the archive has no conversations, or too much of them.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe, or reading a device, may never end
            raise BadRecordError(str(path), "is not a regular file; write its contents to a file, and import that")
        if not zipfile.is_zipfile(path):
            with path.open("rb") as raw:
                if problem := _problem(raw.read(4)):
                    raise BadRecordError(path.name, problem)
                raw.seek(0)
                yield [lambda: Source(path.name, _text(raw), raw, path.stat().st_size)]
            return
        if not archives:
            problem = "is a zip archive, which only --format chatgpt reads; unpack it, and import its files"
            raise BadRecordError(path.name, problem)
        with zipfile.ZipFile(path) as archive, ExitStack() as members_to_close:
            members = sorted(
                (info for info in archive.infolist() if _MEMBERS.fullmatch(info.filename)),
                key=lambda info: info.filename,
            )
            if not members:
                raise BadRecordError(path.name, "there is no conversations.json in this archive")
            if sum(info.file_size for info in members) > MAX_UNPACKED_BYTES:
                problem = f"its conversations take over {MAX_UNPACKED_BYTES} bytes; unpack it, and import each file"
                raise BadRecordError(path.name, problem)
            yield [_member(archive, path, info, members_to_close) for info in members]
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadRecordError(str(path), f"cannot be read: {error}") from error


def _problem(beginning: bytes) -> str:
    """Return what is wrong with a file that begins with these four bytes; empty for one that may be JSON in UTF-8."""
    if beginning == b"PK\x03\x04":
        return "is a zip archive that is cut off or broken; download or copy it again"
    if beginning.startswith(b"\x1f\x8b"):
        return "is compressed by gzip; unpack it, and import that"
    encoding = json.detect_encoding(beginning)
    if encoding.startswith("utf-8"):
        return ""
    return f"is {encoding[:6].upper()}; save it as UTF-8, and import that"


def _member(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo, to_close: ExitStack) -> Callable[[], Source]:
    def open_it() -> Source:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadRecordError(path.name, f"its compression is not supported; unpack it, and import {info.filename}")
        try:
            raw = archive.open(info)
        except RuntimeError as error:  # it has a password
            problem = f"cannot be read: {error}; unpack it, and import {info.filename}"
            raise BadRecordError(path.name, problem) from error
        text = to_close.enter_context(_text(raw))
        return Source(f"{path.name}/{info.filename}", text, raw, info.file_size)

    return open_it


def _text(raw: IO[bytes]) -> TextIO:
    # Only "\n" ends a line, so that line numbers are those of editors. Bytes that are not UTF-8 become halves of
    # surrogate pairs, which read_json() refuses with the place where they stand.
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def read_json(text: str) -> Any:
    """Return the value of a line, an item or a document.

    Raises:
        ValueError: it is no JSON, or has bytes that are not UTF-8.
    """
    if found := _NOT_UTF_8.search(text):
        byte = f"0x{ord(found[0]) - 0xDC00:02x}"
        raise ValueError(f"has bytes that are not UTF-8, such as {byte}; save the file as UTF-8, and import that")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error


def numbered_lines(source: Source) -> Iterator[tuple[str, str | None]]:
    """Yield each line that is not blank, after its place, ``backup.jsonl:17``; None instead of one that is too long."""
    for number in count(1):
        line = source.text.readline(MAX_RECORD_CHARS + 1)
        if not line:
            return
        is_whole = len(line) <= MAX_RECORD_CHARS
        while not (is_whole or line.endswith("\n") or not line):
            line = source.text.readline(_CHUNK)
        if not is_whole or line.strip():
            yield f"{source.name}:{number}", line if is_whole else None
