"""The strict reader's view of JSON objects in the formats of models' APIs: every error names the place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.serialization.storable import require_json, require_storable

__all__ = ["Fields", "expected"]

_MISSING = object()
_KINDS: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", type(None): "null"}

T = TypeVar("T")


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


def expected(what: str, value: Any, place: str) -> InvalidMessageError:
    return InvalidMessageError(f"expected {what}, got {_kind_of(value)}", place)


class Fields:
    """The fields of one JSON object, taken out one by one; what is left over in the end is unknown."""

    def __init__(self, data: Any, place: str) -> None:
        if not isinstance(data, Mapping):
            raise expected("an object", data, place)
        self._data = dict(data)
        self._place = place

    def at(self, key: str) -> str:
        return f"{self._place}.{key}"

    def has(self, key: str) -> bool:
        """Whether the field has a value. A null is taken out."""
        if self._data.get(key) is None:
            self._data.pop(key, None)
            return False
        return True

    def text(self, key: str) -> str:
        value = self._data.pop(key, _MISSING)
        if not isinstance(value, str):
            raise expected("a string", value, self.at(key))
        return require_storable(value, self.at(key))

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def choice(self, key: str, choices: Iterable[str], refused: Mapping[str, str] | None = None) -> str:
        value = self._data.pop(key, _MISSING)
        if isinstance(value, str):
            if value in choices:
                return value
            if refused and value in refused:
                raise InvalidMessageError(refused[value], self.at(key))
        got = repr(value[:100]) if isinstance(value, str) else _kind_of(value)
        raise InvalidMessageError(f"expected one of {', '.join(choices)}, got {got}", self.at(key))

    def object(self, key: str, read: Callable[[Fields], T]) -> T:
        return Fields(self._data.pop(key, _MISSING), self.at(key)).build(read)

    def items(self, key: str, read: Callable[[Fields], T]) -> list[T]:
        """The items of a list that may be missing."""
        if not self.has(key):
            return []
        value = self._data.pop(key)
        if not isinstance(value, (list, tuple)):
            raise expected("a list", value, self.at(key))
        return [Fields(item, f"{self.at(key)}[{index}]").build(read) for index, item in enumerate(value)]

    def content(self, parts: Mapping[str, Callable[[Fields], T]], key: str = "content") -> str | list[T]:
        """Text, or the parts that it is made of."""
        if isinstance(self._data.get(key), str):
            return self.text(key)
        value = self._data.get(key, _MISSING)
        if not isinstance(value, (list, tuple)):
            raise expected("a string or a list of parts", value, self.at(key))
        found = self.items(key, lambda part: parts[part.choice("type", parts)](part))
        if not found:
            raise InvalidMessageError("expected at least one part, got none", self.at(key))
        return found

    def kept(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """A value that is kept as it is; None for one that is missing."""
        if not self.has(key):
            return None
        value = self._data.pop(key)
        if not isinstance(value, kind):
            raise expected(what, value, self.at(key))
        require_json(value, self.at(key), 3)  # it becomes {"attributes": {"openai": {key: value}}}
        return value

    def value(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """A value of one kind, as it is."""
        value = self._data.pop(key, _MISSING)
        if not isinstance(value, kind):
            raise expected(what, value, self.at(key))
        return value

    def content_blocks(self, key: str) -> Any:
        """A text or a list, as it is. It can be kept in attributes."""
        value = self.value(key, (str, list, tuple), "a string or a list of blocks")
        require_json(value, self.at(key), 3)  # it becomes {"attributes": {"anthropic": {key: value}}}
        return value

    def leave(self, key: str) -> None:
        """Take out a field that is not looked at."""
        self._data.pop(key, None)

    def leave_all(self) -> None:
        self._data.clear()

    def refuse(self, key: str, problem: str) -> None:
        """Refuse a field that is known, but cannot be kept."""
        if self.has(key):
            raise InvalidMessageError(problem, self.at(key))

    def build(self, read: Callable[[Fields], T]) -> T:
        try:
            result = read(self)
        except InvalidMessageError:
            raise
        except ValueError as error:  # a constructor's own check
            self._refuse_unknown()
            raise InvalidMessageError(str(error), self._place) from error
        self._refuse_unknown()
        return result

    def _refuse_unknown(self) -> None:
        if self._data:
            raise InvalidMessageError("unknown field; leave it out", self.at(str(next(iter(self._data)))[:100]))
