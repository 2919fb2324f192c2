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
from itertools import chain, count
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar

from chatmemory.transfer.records import BadRecordError

MAX_RECORD_CHARS = 100_000_000
"""The most characters of a line, of an item of an array, or of a document that is read as a whole."""

MAX_UNPACKED_BYTES = 10_000_000_000
"""The most bytes of all files of conversations in an archive, unpacked."""

TOO_LONG = f"has over {MAX_RECORD_CHARS} characters"
"""The problem of a record that is longer than ``MAX_RECORD_CHARS``."""

_CHUNK = 1 << 20

T = TypeVar("T")

_NOT_UTF_8 = re.compile("[\udc80-\udcff]")

# The members of an archive that are read: ChatGPT splits its conversations once there are many.
_MEMBERS = re.compile(r"(.*/)?conversations(-\d+)?\.json")

# The characters of JSON with a meaning outside of strings, and inside, where a backslash takes the next one with it.
_OUTSIDE = re.compile(r'[\[\]{},"]')
_INSIDE = re.compile(r'"|\\.?', re.DOTALL)


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


def read_items(source: Source, make: Callable[[str, Any], T]) -> Iterator[T | BadRecordError]:
    """Yield what ``make`` makes of each item of a JSON array, and an error for each that cannot be read.

    The items are split before they are parsed, so a bad one does not end the import, and the array may be larger than
    memory.

    Args:
        source: the file with the array.
        make: a function of the place, ``conversations.json:1: item 3``, and the value of an item.
    """
    try:
        for number, (line, text) in enumerate(items(source.text), 1):
            place = f"{source.name}:{line}: item {number}"
            try:
                yield make(place, read_json(text))
            except BadRecordError as error:
                yield error
            except (ValueError, RecursionError) as error:
                yield BadRecordError(place, str(error))
    except ValueError as error:
        yield BadRecordError(source.name, str(error))


def items(text: TextIO, chunk: int = _CHUNK) -> Iterator[tuple[int, str]]:
    """Yield the unparsed text of each item of a JSON array, after the number of the line on which it begins.

    Args:
        text: a file at the array's beginning; white space may come before it.
        chunk: the number of characters to read at once.

    Raises:
        ValueError: there is no array, it does not end, something follows it, or an item has too many characters.
    """
    line, read = 1, " "
    while read.isspace():
        line, read = _line_of(read, line), text.read(1)
    if read != "[":
        raise ValueError("expected a JSON array, [...]")
    item, depth, inside, skipped, is_first = "", 0, False, 0, True
    while read := text.read(chunk):
        start, at, skipped = 0, skipped, 0
        while mark := (_INSIDE if inside else _OUTSIDE).search(read, at):
            at = mark.end()
            match mark[0]:
                case '"':
                    inside = not inside
                case "\\":
                    skipped = 1  # of the next chunk
                case "[" | "{":
                    depth += 1
                case "]" | "}" if depth:
                    depth -= 1
                case "," | "]" as end if not depth:
                    item += read[start : at - 1]
                    line = _line_of(item, line)
                    item = item.strip()
                    if item:
                        yield line, item
                    elif end == "," or not is_first:
                        raise ValueError(f"line {line}: expected an item, got {end}")
                    line += item.count("\n")
                    item, start, is_first = "", at, False
                    if end == "]":
                        return _require_end(chain([read[at:]], iter(lambda: text.read(chunk), "")), line)
                case "}":
                    line = _line_of(item + read[start:at], line)
                    raise ValueError(f"line {line}: a bracket that nothing opens")
        item += read[start:]
        if len(item) > MAX_RECORD_CHARS:  # it may never end, if a bracket is missing
            raise ValueError(f"the item that begins on line {_line_of(item, line)} {TOO_LONG}")
    line = _line_of(item, line)
    if not item.strip():
        raise ValueError(f"line {line}: expected an item, got the end of the file")
    raise ValueError(f"the item that begins on line {line} does not end; is the file cut off?")


def _require_end(rest: Iterator[str], line: int) -> None:
    for part in rest:
        line = _line_of(part, line)
        if part.strip():
            raise ValueError(f"line {line}: something follows the end of the array")


def _line_of(text: str, line: int) -> int:
    """Return the line of the first character of ``text``, which begins on ``line``, that is not white space."""
    return line + text.count("\n", 0, len(text) - len(text.lstrip()))
