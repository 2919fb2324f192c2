"""The fields of one JSON object, read strictly or leniently."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from chatmemory.core.contents import ContentType
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import TypedTwice
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.serialization.storable import require_json, require_storable

__all__ = []

_NAMES: dict[type, str] = {
    bool: "true or false",
    str: "a string",
    int: "a number",
    float: "a number",
    type(None): "null",
}

T = TypeVar("T")


class _Fields:
    """The fields of one JSON object, taken out one by one; what is left over in the end is unknown."""

    def __init__(self, data: Any, place: str, strict: bool) -> None:
        if not isinstance(data, Mapping):
            raise _expected("an object", data, place)
        self._data = dict(data)
        self._typed_twice = isinstance(data, TypedTwice)
        self._strict = strict
        self._place = place

    def at(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key

    def type(self, kinds: type[ContentType] | type[ChatMessageType]) -> Any:
        if self._typed_twice:
            raise InvalidMessageError("given twice", self.at("type"))
        value = self._data.pop("type", None)
        if not isinstance(value, str) or value not in kinds.__members__:
            got = "nothing" if value is None else repr(value)[:100]
            raise InvalidMessageError(f"expected one of {', '.join(kinds)}, got {got}", self.at("type"))
        return kinds(value)

    def text(self, key: str) -> str | None:
        value = self._data.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, str):
            raise _expected("a string", value, self.at(key))
        return require_storable(value, self.at(key))

    def flag(self, key: str) -> bool | None:
        value = self._data.pop(key, None)
        if value is not None and not isinstance(value, bool):
            raise _expected("true or false", value, self.at(key))
        return value

    def bytes(self, key: str) -> bytes | None:
        value = self.text(key)
        try:
            return None if value is None else base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise InvalidMessageError(f"expected Base64: {error}", self.at(key)) from error

    def attributes(self) -> Mapping[str, Any] | None:
        value = self._data.pop("attributes", None)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise _expected("an object", value, self.at("attributes"))
        require_json(value, self.at("attributes"), 1)
        return value

    def items(self, key: str, read: Callable[[_Fields], T]) -> list[T]:
        value = self._data.pop(key, None)
        if value is None:
            return []
        if not isinstance(value, list):
            raise _expected("a list", value, self.at(key))
        return [_Fields(item, f"{self.at(key)}[{index}]", self._strict).build(read) for index, item in enumerate(value)]

    def object(self, key: str, read: Callable[[_Fields], T]) -> T | None:
        value = self._data.pop(key, None)
        return None if value is None else _Fields(value, self.at(key), self._strict).build(read)

    def build(self, read: Callable[[_Fields], T]) -> T:
        try:
            result = read(self)
        except InvalidMessageError:
            raise
        except ValueError as error:  # a constructor's own check
            self._refuse_unknown()  # a misspelt field is the better explanation of a missing one
            raise InvalidMessageError(str(error), self._place) from error
        self._refuse_unknown()
        return result

    def _refuse_unknown(self) -> None:
        if self._strict and self._data:
            raise InvalidMessageError("unknown field; leave it out", self.at(str(next(iter(self._data)))[:100]))


def _kind_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return _NAMES.get(type(value), type(value).__name__)


def _expected(what: str, value: Any, place: str) -> InvalidMessageError:
    return InvalidMessageError(f"expected {what}, got {_kind_of(value)}", place)
