"""Checks that text and JSON can be kept by every database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import MAX_NESTING, TOO_DEEP, levels

__all__ = ["require_json", "require_storable", "with_replacements"]

# No database holds U+0000, and half of a surrogate pair has no UTF-8.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def require_storable(text: str, place: str = "") -> str:
    """Return ``text``, or raise ``InvalidMessageError`` if no database can hold it."""
    found = _UNSTORABLE.search(text)
    if found:
        raise InvalidMessageError(
            "has U+0000 at index %(index)s; take it out"
            if found[0] == "\x00"
            else "has half of a surrogate pair (U+%(character)s) at index %(index)s; take it out",
            place,
            code="invalid_characters",
            character=f"{ord(found[0]):04X}",
            index=found.start(),
        )
    return text


def with_replacements(value: Any) -> Any:
    """Return a JSON value with U+FFFD for each U+0000 and each lone half of a surrogate pair in its texts and keys."""
    if isinstance(value, str):
        if not _UNSTORABLE.search(value):
            return value
        # Two halves that belong together become their character.
        whole = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.replace("\x00", "\ufffd")
    if isinstance(value, Mapping):
        return {with_replacements(key): with_replacements(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_replacements(item) for item in value]
    return value


def require_json(value: Any, place: str, depth: int = 0, deepest: int = MAX_NESTING) -> None:
    """Raise ``InvalidMessageError`` for a JSON value that is nested too deep or that no database can hold."""
    if not _is_storable_json(value, deepest - depth):
        _refuse_json(value, place, depth, deepest)


def _is_storable_json(value: Any, deepest: int) -> bool:
    for depth, level in enumerate(levels(value)):
        if depth > deepest:
            return False
        for item in level:
            if isinstance(item, str):
                if _UNSTORABLE.search(item):
                    return False
            elif isinstance(item, Mapping) and any(_UNSTORABLE.search(str(key)) for key in item):
                return False
    return True


def _refuse_json(value: Any, place: str, depth: int, deepest: int) -> None:
    """Raise the error with the place, which :func:`_is_storable_json` does not know."""
    place = place[:200]  # a long key is not copied for each of its values
    if depth > deepest:
        raise InvalidMessageError(TOO_DEEP, place, most=deepest)
    if isinstance(value, str):
        require_storable(value, place)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            require_storable(str(key), place)
            _refuse_json(item, f"{place}.{str(key)[:100]}", depth + 1, deepest)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_json(item, f"{place}[{index}]", depth + 1, deepest)
