"""The base of messages as values: a dict and a list that cannot change, and a short ``repr``.

The dict and the list compare equal to, pickle like and serialise like the plain ones, so nobody has to know of them
until somebody tries to change a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, NoReturn, Self

from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import MAX_NESTING, TOO_DEEP

__all__ = ["FrozenDict", "FrozenList", "ShortRepr", "freeze"]

_MAX_SHOWN_CHARS = 120


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("a message is immutable: build a new one instead")


class FrozenDict(dict[str, Any]):
    """A read-only dict with string keys."""

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: object) -> Self:
        return self


class FrozenList(list[Any]):
    """A read-only list."""

    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    def __deepcopy__(self, memo: object) -> Self:
        return self


def freeze(value: Any, depth: int = 0) -> Any:
    """Return ``value`` with every dict, list and tuple in it copied into a read-only one.

    Raises:
        TypeError: a dict has a key that is not a string.
        InvalidValueError: it is nested deeper than :data:`MAX_NESTING`.
    """
    # Loops, for in Python 3.11 a comprehension takes a frame of its own.
    if depth > MAX_NESTING:
        raise InvalidValueError(TOO_DEEP, most=MAX_NESTING)
    if isinstance(value, (FrozenDict, FrozenList)):
        return value
    if isinstance(value, Mapping):
        frozen = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys of attributes must be strings, but one is: {key!r}")
            frozen[key] = freeze(item, depth + 1)
        return FrozenDict(frozen)
    if isinstance(value, (list, tuple)):
        items = []
        for item in value:
            items.append(freeze(item, depth + 1))  # noqa: PERF401
        return FrozenList(items)
    return value


class ShortRepr:
    """A ``repr`` for dataclasses that leaves out what is empty and shortens what is long."""

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is None or value == () or value == {} or (field.default is not MISSING and value == field.default):
                continue
            shown.append(f"{field.name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, (str, bytes)) and len(value) > _MAX_SHOWN_CHARS:
        return f"{value[:_MAX_SHOWN_CHARS]!r}… ({len(value)} characters)"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_short, value)) + "]"
    text = repr(value)
    return text if len(text) <= 4 * _MAX_SHOWN_CHARS else f"{text[: 4 * _MAX_SHOWN_CHARS]}…"
