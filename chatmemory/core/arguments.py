"""Checks of constructor arguments, with LangChain4j's wording, and whole numbers in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from chatmemory.core.exceptions import InvalidValueError

# Java's String.trim() strips control characters too, but not no-break spaces.
_BLANK = "".join(map(chr, range(0x21)))

# What java.net.URI refuses: controls, spaces, the delimiters of RFC 2396, a broken escape, a second fragment.
_ILLEGAL_IN_URL = re.compile(r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\"<>\\^`{|}]")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def require_str(value: object, name: str) -> None:
    """Raise ``InvalidValueError`` for None and ``TypeError`` for anything else that is not a string."""
    if value is None:
        raise InvalidValueError("%(name)s cannot be null", code="null", name=name)
    require_optional_str(value, name)


def require_optional_str(value: object, name: str) -> None:
    """Raise ``TypeError`` unless ``value`` is a string or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a string, but is: {type(value).__name__}")


def is_blank(value: str) -> bool:
    """Return whether ``value`` contains only spaces and control characters, which Java's ``trim()`` strips."""
    return not value.strip(_BLANK)


def require_not_blank(value: object, name: str) -> None:
    """Raise ``InvalidValueError`` for None and for a string of only spaces and control characters."""
    require_optional_str(value, name)
    if value is None or is_blank(str(value)):
        code = "null" if value is None else "blank"
        raise InvalidValueError("%(name)s cannot be null or blank", code=code, name=name)


def require_url(value: str | None, name: str) -> None:
    """Raise ``InvalidValueError`` for a string that is not a URI. A URI may be relative or empty."""
    require_optional_str(value, name)
    if value is None:
        return
    illegal = _ILLEGAL_IN_URL.search(value)
    if illegal:
        raise _illegal(value, name, illegal.start())
    broken = _BROKEN_ESCAPE.search(value)
    if broken:
        raise InvalidValueError(
            "Malformed escape pair in %(name)s at index %(index)s: %(url)s",
            name=name,
            index=broken.start(),
            url=value[:200],
        )
    if value.count("#") > 1:
        raise _illegal(value, name, value.index("#", value.index("#") + 1))


def _illegal(url: str, name: str, index: int) -> InvalidValueError:
    return InvalidValueError(
        "Illegal character in %(name)s at index %(index)s: %(url)s", name=name, index=index, url=url[:200]
    )


def require_list(values: Iterable[Any], name: str) -> list[Any]:
    """Return ``values`` as a list.

    Raises:
        TypeError: ``values`` is not iterable, or is a string or a mapping.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list, but is: {type(values).__name__}")
    return list(values)


def tuple_of(kind: type | tuple[type, ...], values: Iterable[Any] | None, name: str) -> tuple[Any, ...]:
    """Return ``values`` as a tuple whose elements are all of a ``kind``. None gives an empty tuple.

    Raises:
        TypeError: see ``require_list``; or an element has another type. The error names the element.
    """
    if values is None:
        return ()
    result = tuple(require_list(values, name))
    for index, value in enumerate(result):
        if not isinstance(value, kind):
            expected = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
            raise TypeError(f"{name}[{index}] has the wrong type: {type(value).__name__}; expected {expected}")
    return result


# int() of very many digits is slow, or an error. The text may come from a URL.
_MOST_DIGITS = 18


def whole_number(text: str, *, most: int | None = None) -> int | None:
    """Return the whole number that ``text`` writes in ASCII digits; None if it is above ``most`` or not such a number.

    A number of more than 18 digits returns an arbitrary number of 18 digits.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    number = int(text.lstrip("0")[:_MOST_DIGITS] or "0")
    return number if most is None or number <= most else None
