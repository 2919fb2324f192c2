"""The JSON objects on the lines of an export, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_datetime

from chatmemory.transfer.files import TOO_LONG, read_json
from chatmemory.transfer.moments import as_stored
from chatmemory.transfer.records import BadRecordError


@dataclass
class Line:
    """One line. Its fields are taken out one by one; those that are left at the end are unknown."""

    place: str
    """The place of the line, for error messages."""

    key: str
    """The primary key of the conversation."""

    data: dict[str, Any]
    """The fields that have not been taken out."""

    problem: str = ""
    """The problem of a line that is not a JSON object with a key; empty for any other line."""

    def bad(self, problem: str) -> BadRecordError:
        """Return an error that names the place of the line."""
        return BadRecordError(self.place, problem)

    def has(self, name: str) -> bool:
        return name in self.data

    def take(self, name: str, kind: type, what: str, *, null: bool = False) -> Any:
        """Take out a field and return its value, which is of type ``kind``, or with ``null`` None.

        Raises:
            BadRecordError: the value is of another type, or missing.
        """
        if name not in self.data:
            raise self.bad(f"{name} is missing; if an older version wrote this file, export the conversation again")
        value = self.data.pop(name)
        if (null and value is None) or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
            return value
        raise self.bad(f"{name}: expected {what}, got {json.dumps(value)[:100]}")

    def text(self, name: str, *, null: bool = False) -> Any:
        return self.encodable(name, self.take(name, str, "a text", null=null))

    def encodable(self, name: str, text: str | None) -> str | None:
        """Return ``text``, the value of the field ``name``.

        Raises:
            BadRecordError: no database can store the text.
        """
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            raise self.bad(f"{name}: has half of a surrogate pair at index {error.start}; take it out") from None
        return text

    def number(self, name: str, *, null: bool = False) -> Any:
        return self.take(name, int, "a whole number", null=null)

    def flag(self, name: str, *, null: bool = False) -> Any:
        return self.take(name, bool, "true, false or null" if null else "true or false", null=null)

    def moment(self, name: str, *, null: bool = False) -> Any:
        text = self.text(name, null=null)
        if text is None:
            return None
        try:
            found = parse_datetime(text)
        except ValueError:
            found = None
        if found is None:
            raise self.bad(f"{name}: expected a time such as 2026-01-31T12:00:00+00:00, got {text[:100]!r}")
        return as_stored(found)

    def uuid(self) -> UUID:
        try:
            return UUID(self.key)
        except ValueError:
            raise self.bad(f"conversation: expected a UUID, got {self.key[:100]!r}") from None

    def done(self) -> None:
        """Require that all fields have been taken out.

        Raises:
            BadRecordError: there is an unknown field.
        """
        if self.data:
            raise self.bad(f"{next(iter(self.data))[:100]!r} is unknown; a newer version may have written this file")


def blocks(lines: Iterable[tuple[str, str | None]]) -> Iterator[Iterator[Line]]:
    """Yield the lines of each conversation, up to its end. An unreadable line belongs to the conversation before it."""
    for _key, block in groupby(_numbered(_parsed(lines)), key=lambda item: (item[0], item[1].key)):
        yield (line for _number, line in block)


def _numbered(lines: Iterator[Line]) -> Iterator[tuple[int, Line]]:
    """Yield each line after the number of conversations that ended before it: a file of two exports may repeat one."""
    ended = 0
    for line in lines:
        ends = line.has("end") and not line.has("app")  # before its fields are taken out
        yield ended, line
        ended += ends


def _parsed(lines: Iterable[tuple[str, str | None]]) -> Iterator[Line]:
    key = ""
    for place, text in lines:
        if text is None:
            yield Line(place, key, {}, TOO_LONG)
            continue
        try:
            data = read_json(text)
        except ValueError as error:
            yield Line(place, key, {}, str(error))
            continue
        if not isinstance(data, dict) or not isinstance(data.get("conversation"), str):
            yield Line(place, key, {}, 'expected an object with the key "conversation"')
            continue
        key = data.pop("conversation")
        yield Line(place, key, data)
