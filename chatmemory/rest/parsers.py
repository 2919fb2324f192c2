"""Bodies of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from chatmemory.conf import setting
from chatmemory.core.json_text import MAX_NESTING, levels, loads
from chatmemory.rest.problems import TooLarge

__all__ = ["StrictJSONParser"]

_MOST_VALUES = 200_000

# It matches a string that does not end, too: otherwise the search would begin again at each quotation mark in it.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)


class StrictJSONParser(BaseParser):
    """A parser of JSON in UTF-8. It refuses a body that is too long, nested too deep or no JSON."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        most = setting("MAX_BODY_BYTES")
        try:
            body = stream.read(most + 1)
        except ValueError as error:  # under ASGI Django closes the body of a client that has gone
            raise ParseError("The request cannot be read.") from error
        if len(body) > most:
            raise TooLarge(f"The body has more than {most} bytes. Send less at once.")
        # Values may take thirty times as many bytes as their JSON, so they are counted before the body is parsed. The
        # count of the bytes is at most twice that of the values.
        most_counted = 2 * _MOST_VALUES
        if _counted(body) > most_counted and _counted(_STRING.sub(b"", body)) > most_counted:
            raise _too_many_values()
        try:
            value = loads(body.decode("utf-8"))
            _require_bounded(value)
        except UnicodeDecodeError as error:
            raise ParseError(f"The body is not UTF-8: {error}.") from error
        except ValueError as error:
            raise ParseError(f"The body cannot be read: {error}.") from error
        return value


def _require_bounded(value: Any) -> None:
    """Raise if ``value`` is nested too deep or has too many values: each of them costs time at every later step."""
    count = 0
    for depth, level in enumerate(levels(value)):
        count += len(level)
        if depth > MAX_NESTING:
            raise ValueError(f"nested more than {MAX_NESTING} levels deep")
        if count > _MOST_VALUES:
            raise _too_many_values()


def _counted(body: bytes) -> int:
    """Return the number of values in a body, or more: empty containers, and what is in strings, count too."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def _too_many_values() -> TooLarge:
    return TooLarge(f"The body has more than {_MOST_VALUES} values. Send less at once.")
