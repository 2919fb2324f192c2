"""The fields of a JSON object, read strictly: every error has its field path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.serialization.storable import require_storable

__all__ = ["Fields", "expected"]

_MISSING = object()
_KINDS: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", type(None): "null"}

T = TypeVar("T")


class Fields:
    """The fields of one JSON object, taken out one by one; what is left over in the end is unknown."""

    def __init__(self, data: Any, place: str) -> None:
        """
        Args:
            data: the object.
            place: what errors call it, ``messages[3]`` say; empty for the whole document.

        Raises:
            InvalidMessageError: ``data`` is no object.
        """
        if not isinstance(data, Mapping):
            raise expected("an object", data, place)
        self._data = dict(data)
        self._place = place

    def at(self, key: str) -> str:
        """Return the place of a field."""
        return f"{self._place}.{key}" if self._place else key

    def has(self, key: str) -> bool:
        """Return whether a field has a value, and take it out if it is null."""
        if self._data.get(key) is None:
            self._data.pop(key, None)
            return False
        return True

    def value(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """Take out a value of one kind, which errors call ``what``."""
        value = self._data.pop(key, _MISSING)
        if not isinstance(value, kind):
            raise expected(what, value, self.at(key))
        return value

    def text(self, key: str) -> str:
        """Take out a text that a database can hold."""
        text: str = self.value(key, str, "a string")
        return require_storable(text, self.at(key))

    def optional_text(self, key: str) -> str | None:
        """Take out a text; return None for one that is missing or null."""
        return self.text(key) if self.has(key) else None

    def choice(self, key: str, choices: Iterable[str], refused: Mapping[str, str] | None = None) -> str:
        """Take out one of ``choices``. ``refused`` has an error message for each other value that is known."""
        value = self._data.pop(key, _MISSING)
        if isinstance(value, str):
            if value in choices:
                return value
            if refused and value in refused:
                raise InvalidMessageError(refused[value], self.at(key), code="not_supported")
        raise InvalidMessageError(
            "expected one of %(choices)s, got %(got)s",
            self.at(key),
            code="invalid_choice" if isinstance(value, str) else _code_of(value),
            choices=[*choices],
            got=repr(value[:100]) if isinstance(value, str) else _kind_of(value),
        )

    def object(self, key: str, read: Callable[[Self], T]) -> T:
        """Take out an object, and return what ``read`` makes of its fields."""
        return self._within(self._data.pop(key, _MISSING), self.at(key)).build(read)

    def items(self, key: str, read: Callable[[Self], T]) -> list[T]:
        """Take out a list of objects, which may be missing, and return what ``read`` makes of each."""
        if not self.has(key):
            return []
        value = self.value(key, (list, tuple), "a list")
        return [self._within(item, f"{self.at(key)}[{index}]").build(read) for index, item in enumerate(value)]

    def content(self, parts: Mapping[str, Callable[[Self], T]], key: str = "content") -> str | list[T]:
        """Take out a text or a list of parts, each read by the function that ``parts`` has for its ``type``."""
        value = self._data.get(key, _MISSING)
        if isinstance(value, str):
            return self.text(key)
        if not isinstance(value, (list, tuple)):
            raise expected("a string or a list of parts", value, self.at(key))
        found = self.items(key, lambda part: parts[part.choice("type", parts)](part))
        if not found:
            raise InvalidMessageError("expected at least one part, got none", self.at(key), code="empty")
        return found

    def others(self) -> dict[str, Any]:
        """Take out all fields that are left, and return those that are not null."""
        found = {key: value for key, value in self._data.items() if value is not None}
        self._data.clear()
        return found

    def leave(self, *keys: str) -> None:
        """Take out fields without looking at them."""
        for key in keys:
            self._data.pop(key, None)

    def leave_all(self) -> None:
        """Take out all fields without looking at them."""
        self._data.clear()

    def refuse(self, key: str, problem: str, code: str = "not_supported") -> None:
        """Raise an error for a field that is known, but cannot be kept."""
        if self.has(key):
            raise InvalidMessageError(problem, self.at(key), code=code)

    def refuse_others(self, *known: str) -> None:
        """Raise an error for a field that is left over, unless it is one of ``known``."""
        unknown = next((str(key) for key in self._data if key not in known), None)
        if unknown is not None:
            raise InvalidMessageError("unknown field; leave it out", self.at(unknown[:100]), code="unknown_field")

    def build(self, read: Callable[[Self], T]) -> T:
        """Return what ``read`` makes of the fields, of which it must leave none over."""
        try:
            result = read(self)
        except InvalidMessageError:
            raise
        except ValueError as error:  # a constructor's own check
            self.refuse_others()  # a misspelt field is the better explanation of a missing one
            raise InvalidMessageError(error, self._place) from error
        self.refuse_others()
        return result

    def _within(self, data: Any, place: str) -> Self:
        return type(self)(data, place)


def expected(what: str, value: Any, place: str) -> InvalidMessageError:
    """Return the error for a value that is not ``what`` it must be."""
    return InvalidMessageError(
        "expected %(expected)s, got %(got)s", place, code=_code_of(value), expected=what, got=_kind_of(value)
    )


def _code_of(value: Any) -> str:
    return "required" if value is _MISSING else "null" if value is None else "invalid_type"


def _kind_of(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return _KINDS.get(type(value), type(value).__name__)
