"""JSON text, written as Jackson (LangChain4j's library) writes it, and read more strictly than Jackson reads it.

What databases cannot store, U+0000 and lone surrogates, is refused or replaced here.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from chatmemory.core.exceptions import InvalidMessageError, InvalidValueError

T = TypeVar("T")

MAX_NESTING = 500
"""The maximum nesting of arrays and objects in a document."""

TOO_DEEP = "nested more than %(most)s levels deep"
"""The template of the error for a value that is nested too deep."""

MAX_DOCUMENT_CHARS = 20_000_000
"""The maximum number of characters of a document."""

_MAX_NUMBER_CHARS = 1000

_quoted = json.JSONEncoder(ensure_ascii=False).encode

# Control characters without a short escape such as \n. Jackson writes their codes in upper case, Python in lower case.
_CODED = re.compile(r"([\x00-\x07\x0b\x0e-\x1f])")


def _string(value: str) -> str:
    if not _CODED.search(value):
        return _quoted(value)
    parts = _CODED.split(value)
    parts[::2] = [_quoted(part)[1:-1] for part in parts[::2]]
    parts[1::2] = [f"\\u{ord(part):04X}" for part in parts[1::2]]
    return f'"{"".join(parts)}"'


def _double(value: float) -> str:
    """Return a float as Java's ``Double.toString`` writes it: 1.0E21 instead of 1e+21."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{int(exponent) + len(digits) - 1}"


def dumps(value: Any) -> str:
    """Return ``value`` as compact JSON that escapes only what must be escaped.

    Enums are written as their names, UUIDs as text, bytes as Base64, and numbers that are not finite as text.

    Raises:
        TypeError: a value has no JSON form.
        InvalidValueError: ``value`` is nested deeper than ``MAX_NESTING``.
    """
    return _dumps(value, 0)


def _dumps(value: Any, depth: int) -> str:
    if depth > MAX_NESTING:
        raise InvalidValueError(TOO_DEEP, most=MAX_NESTING)
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Enum():
            return _string(value.name)
        case str():
            return _string(value)
        case float():
            return _double(value)
        case Decimal() if not value.is_finite():
            return _double(float(value))
        case int() | Decimal():
            return str(value)
        case Mapping():
            parts = []
            for key, item in value.items():
                parts.append(f"{_string(key)}:{_dumps(item, depth + 1)}")
            return "{" + ",".join(parts) + "}"
        case list() | tuple():
            parts = []
            for item in value:
                parts.append(_dumps(item, depth + 1))
            return "[" + ",".join(parts) + "]"
        case UUID():
            return _string(str(value))
        case bytes():
            return _string(base64.b64encode(value).decode())
    raise TypeError(f"a {type(value).__name__} has no JSON form; make it a string, number, list or dict first")


class TypedTwice(dict[str, Any]):
    """An object whose JSON text contains the key ``type`` more than once."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs) and sum(key == "type" for key, _ in pairs) > 1:
        return TypedTwice(result)
    return result


def _short_number(digits: str) -> str:
    if len(digits) > _MAX_NUMBER_CHARS:
        raise InvalidValueError(
            "a number of %(length)s characters; at most %(most)s are read",
            code="max_length",
            length=len(digits),
            most=_MAX_NUMBER_CHARS,
        )
    return digits


def _constant(name: str) -> NoReturn:
    raise InvalidValueError("%(name)s is not JSON; write it as a string", name=name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=lambda digits: int(_short_number(digits)),
    parse_float=lambda digits: float(_short_number(digits)),
    parse_constant=_constant,
)


def loads(text: str) -> Any:
    """Return the value of a JSON document. If a key is repeated, the last value counts.

    Raises:
        InvalidValueError: ``text`` is not JSON, is too long or nested too deep, or has a number of over 1,000 digits.
        TypeError: ``text`` is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected JSON text, got {type(text).__name__}")
    if len(text) > MAX_DOCUMENT_CHARS:
        raise InvalidValueError(
            "the document has %(length)s characters; at most %(most)s are read",
            code="max_length",
            length=len(text),
            most=MAX_DOCUMENT_CHARS,
        )
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidValueError("not JSON: %(error)s", error=str(error)) from error
    except RecursionError as error:
        raise InvalidValueError(TOO_DEEP, most=MAX_NESTING) from error


def levels(value: Any) -> Iterator[list[Any]]:
    """Yield a list with ``value`` itself, then a list of what it directly contains, and so on, level by level."""
    level = [value]
    while level:
        yield level
        containers = [item for item in level if isinstance(item, (Mapping, list, tuple))]
        level = [child for item in containers for child in (item.values() if isinstance(item, Mapping) else item)]


def java_map_order(keys: Iterable[str]) -> list[str]:
    """Return ``keys`` in the order in which a new ``java.util.HashMap`` iterates over them.

    LangChain4j copies the attributes of a user message into a ``HashMap``, so it writes them in this order.
    """
    keys = list(keys)
    capacity = 1
    while capacity < len(keys) / 0.75 + 1:
        capacity *= 2

    def bucket(key: str) -> int:
        code = 0
        units = key.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            code = (31 * code + 256 * high + low) & 0xFFFFFFFF
        return (code ^ (code >> 16)) & (capacity - 1)

    return sorted(keys, key=bucket)


# No database stores U+0000, and a lone surrogate has no UTF-8.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def require_storable(text: str, place: str = "") -> str:
    """Return ``text``, or raise ``InvalidMessageError`` if databases cannot store it."""
    found = _UNSTORABLE.search(text)
    if found:
        raise InvalidMessageError(
            "has U+0000 at index %(index)s; take it out"
            if found[0] == "\x00"
            else "has a lone surrogate (U+%(character)s) at index %(index)s; take it out",
            place,
            code="invalid_characters",
            character=f"{ord(found[0]):04X}",
            index=found.start(),
        )
    return text


def is_storable(value: Any, deepest: float = math.inf) -> bool:
    """Return whether databases can store all texts of a JSON value that is nested at most so deep."""
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


def with_replacements(value: T) -> T:
    """Return a JSON value whose texts databases can store; ``value`` itself if they already can.

    The two surrogates of a pair become their character, and U+FFFD replaces U+0000 and each lone surrogate.

    This is for text of models and tools, and for searches. Other text from outside is refused, see
    ``require_storable``.
    """
    storable: T = value if is_storable(value) else _replaced(value)
    return storable


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        whole = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.replace("\x00", "\ufffd")
    if isinstance(value, Mapping):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(item) for item in value]
    return value


def is_replaced(text: str, storable: str) -> bool:
    """Return whether ``with_replacements`` replaced a character of ``text``, rather than only joining surrogates."""
    return storable.count("\ufffd") > text.count("\ufffd")


class StorableDeltas:
    """The deltas of a text, joined to what ``with_replacements`` makes of the whole text.

    A delta may end with the first surrogate of a pair, which waits for the next delta.
    """

    def __init__(self) -> None:
        self._waiting = ""

    def take(self, delta: str) -> str:
        """Return what can be shown and stored after another delta; it may be empty."""
        text = self._waiting + delta
        self._waiting = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return with_replacements(text.removesuffix(self._waiting))

    def end(self) -> str:
        """Return the rest of the text, which is complete."""
        waiting, self._waiting = self._waiting, ""
        return with_replacements(waiting)


def require_json(value: Any, place: str, depth: int = 0, deepest: int = MAX_NESTING) -> None:
    """Raise ``InvalidMessageError`` for a JSON value that is nested too deep or that databases cannot store."""
    if not is_storable(value, deepest - depth):
        _refuse_json(value, place, depth, deepest)


def _refuse_json(value: Any, place: str, depth: int, deepest: int) -> None:
    """Raise the error with the field path, which ``is_storable`` does not know."""
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
