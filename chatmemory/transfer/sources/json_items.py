"""The items of a JSON array that may be larger than memory, one after the other.

The items are split before they are parsed, so each is named by its line, and a bad one does not end the import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

from chatmemory.transfer.files import MAX_RECORD_CHARS, TOO_LONG, Source

__all__ = ["items", "placed_items"]

_CHUNK = 1 << 20

# The characters with a meaning outside of strings, and inside.
_OUTSIDE = re.compile(r'[\[\]{},"]')
_INSIDE = re.compile(r'["\\]')


def placed_items(source: Source) -> Iterator[tuple[str, str]]:
    """Yield the unparsed text of each item of a file, after its place: ``conversations.json:1: item 3``.

    Raises:
        ValueError: as :func:`items` does.
    """
    for number, (line, text) in enumerate(items(source.text), 1):
        yield f"{source.name}:{line}: item {number}", text


def items(text: TextIO, chunk: int = _CHUNK) -> Iterator[tuple[int, str]]:
    """Yield the unparsed text of each item, after the number of the line on which it begins.

    Args:
        text: a file at the array's beginning; white space may come before it.
        chunk: the number of characters to read at once.

    Raises:
        ValueError: there is no array, it does not end, something follows it, or an item has too many characters.
    """
    scanner = _Scanner(text, chunk)
    if scanner.next_character() != "[":
        raise ValueError("expected a JSON array, [...]")
    yield from scanner.items()
    if scanner.next_character():
        raise ValueError(f"line {scanner.line}: something follows the end of the array")


class _Scanner:
    def __init__(self, text: TextIO, chunk: int) -> None:
        self._text = text
        self._chunk = chunk
        self._buffer = ""
        self._at = 0
        self.line = 1

    def next_character(self) -> str:
        """Take the next character that is not white space, and return it; empty at the end of the file."""
        while True:
            while self._at < len(self._buffer):
                character = self._buffer[self._at]
                self._at += 1
                if character == "\n":
                    self.line += 1
                elif not character.isspace():
                    return character
            if not self._read():
                return ""

    def items(self) -> Iterator[tuple[int, str]]:
        """Yield the items with their line numbers, and take the closing bracket."""
        first = True
        while True:
            start = self.next_character()
            if start == "]" and first:
                return
            if start in ("", "]", ","):
                raise ValueError(f"line {self.line}: expected an item, got {start or 'the end of the file'}")
            self._at -= 1
            line = self.line
            item, end = self._item()
            self.line += item.count("\n")
            yield line, item
            if end == "]":
                return
            first = False

    def _item(self) -> tuple[str, str]:
        """Take an item and the comma or bracket that ends it, and return both."""
        parts: list[str] = []
        start, chars, depth = self._at, 0, 0
        inside = escaped = False
        while True:
            if escaped and self._at < len(self._buffer):
                self._at += 1
                escaped = False
            found = (_INSIDE if inside else _OUTSIDE).search(self._buffer, self._at)
            if found is None:
                parts.append(self._buffer[start:])
                chars += len(parts[-1])
                if chars > MAX_RECORD_CHARS:  # it may never end, if a bracket is missing
                    raise ValueError(f"the item that begins on line {self.line} {TOO_LONG}")
                if not self._read():
                    raise ValueError(f"the item that begins on line {self.line} does not end; is the file cut off?")
                start = 0
                continue
            self._at = found.end()
            match found[0]:
                case '"':
                    inside = not inside
                case "\\":
                    escaped = True
                case "[" | "{":
                    depth += 1
                case "]" | "}" if depth:
                    depth -= 1
                case "," | "]" if not depth:
                    parts.append(self._buffer[start : self._at - 1])
                    return "".join(parts).rstrip(), found[0]
                case "}":
                    raise ValueError(f"line {self.line}: a bracket that nothing opens")

    def _read(self) -> bool:
        """Read the next chunk in place of the last; return whether there is one."""
        self._buffer, self._at = self._text.read(self._chunk), 0
        return bool(self._buffer)
