"""The strict reader of messages: exactly LangChain4j's shape, or an error that names the place."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from chatmemory.contents import (
    Audio,
    AudioContent,
    Content,
    ContentType,
    DetailLevel,
    Image,
    ImageContent,
    PdfFile,
    PdfFileContent,
    TextContent,
    Video,
    VideoContent,
)
from chatmemory.exceptions import InvalidMessageError
from chatmemory.json_text import MAX_NESTING, TypedTwice
from chatmemory.messages import (
    AiMessage,
    ChatMessage,
    ChatMessageType,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)

__all__ = ["read_message", "read_messages", "require_json", "require_storable"]

# No database holds U+0000, and half of a surrogate pair has no UTF-8.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_NAMES: dict[type, str] = {
    bool: "true or false",
    str: "a string",
    int: "a number",
    float: "a number",
    type(None): "null",
}

T = TypeVar("T")


def read_messages(data: Any, place: str = "", *, strict: bool = True) -> list[ChatMessage]:
    """Messages from a parsed JSON array, or none from null."""
    if data is None:
        return []
    if not isinstance(data, list):
        raise _expected("a list of messages", data, place)
    return [read_message(item, f"{place}[{index}]", strict=strict) for index, item in enumerate(data)]


def read_message(data: Any, place: str = "", *, strict: bool = True) -> ChatMessage:
    """A message from a parsed JSON object. Unless ``strict``, fields that nobody knows are passed over."""
    fields = _Fields(data, place, strict)
    kind = fields.type(ChatMessageType)
    return fields.build(_MESSAGES[kind])


def require_storable(text: str, place: str = "") -> str:
    """Raise ``InvalidMessageError`` for a text that no database can hold; give it back otherwise."""
    found = _UNSTORABLE.search(text)
    if found:
        what = "U+0000" if found[0] == "\x00" else f"half of a surrogate pair (U+{ord(found[0]):04X})"
        raise InvalidMessageError(f"has {what} at index {found.start()}; take it out", place)
    return text


def _kind_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return _NAMES.get(type(value), type(value).__name__)


def _expected(what: str, value: Any, place: str) -> InvalidMessageError:
    return InvalidMessageError(f"expected {what}, got {_kind_of(value)}", place)


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


def require_json(value: Any, place: str, depth: int = 0, deepest: int = MAX_NESTING) -> None:
    """Raise ``InvalidMessageError`` for a JSON value that is nested too deep or holds what no database can."""
    if not _is_storable_json(value, deepest - depth):
        _refuse_json(value, place, depth, deepest)


def _is_storable_json(value: Any, deepest: int) -> bool:
    level = [value]
    for _ in range(deepest + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if _UNSTORABLE.search(item):
                    return False
            elif isinstance(item, Mapping):
                below.extend(map(str, item))
                below.extend(item.values())
            elif isinstance(item, (list, tuple)):
                below.extend(item)
        if not below:
            return True
        level = below
    return False


def _refuse_json(value: Any, place: str, depth: int, deepest: int) -> None:
    """Find the place."""
    place = place[:200]  # a long key is not copied for each of its values
    if depth > deepest:
        raise InvalidMessageError(f"nested more than {deepest} levels deep", place)
    if isinstance(value, str):
        require_storable(value, place)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            require_storable(str(key), place)
            _refuse_json(item, f"{place}.{str(key)[:100]}", depth + 1, deepest)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_json(item, f"{place}[{index}]", depth + 1, deepest)


def _system(fields: _Fields) -> SystemMessage:
    return SystemMessage(fields.text("text"))  # type: ignore[arg-type]  # the constructor refuses None


def _user(fields: _Fields) -> UserMessage:
    return UserMessage(
        contents=fields.items("contents", _content), name=fields.text("name"), attributes=fields.attributes()
    )


def _ai(fields: _Fields) -> AiMessage:
    return AiMessage(
        fields.text("text"),
        fields.items("toolExecutionRequests", _request),
        thinking=fields.text("thinking"),
        attributes=fields.attributes(),
    )


def _tool_result(fields: _Fields) -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(
        fields.text("id"),
        fields.text("toolName"),
        fields.text("text"),
        contents=fields.items("contents", _content),
        is_error=fields.flag("isError"),
        attributes=fields.attributes(),
    )


def _custom(fields: _Fields) -> CustomMessage:
    return CustomMessage(fields.attributes())


_MESSAGES: dict[ChatMessageType, Callable[[_Fields], ChatMessage]] = {
    ChatMessageType.SYSTEM: _system,
    ChatMessageType.USER: _user,
    ChatMessageType.AI: _ai,
    ChatMessageType.TOOL_EXECUTION_RESULT: _tool_result,
    ChatMessageType.CUSTOM: _custom,
}


def _request(fields: _Fields) -> ToolExecutionRequest:
    return ToolExecutionRequest(fields.text("id"), fields.text("name"), fields.text("arguments"))


def _content(fields: _Fields) -> Content:
    match fields.type(ContentType):
        case ContentType.TEXT:
            return TextContent(fields.text("text"))  # type: ignore[arg-type]  # the constructor refuses None
        case ContentType.IMAGE:
            return ImageContent(image=fields.object("image", _image), detail_level=_detail_level(fields))
        case ContentType.AUDIO:
            return AudioContent(audio=fields.object("audio", _audio))
        case ContentType.VIDEO:
            return VideoContent(video=fields.object("video", _video))
        case _:
            return PdfFileContent(pdf_file=fields.object("pdfFile", _pdf_file))


def _detail_level(fields: _Fields) -> DetailLevel:
    value = fields.text("detailLevel")
    if value is None or value not in DetailLevel.__members__:
        raise InvalidMessageError(f"expected one of {', '.join(DetailLevel)}", fields.at("detailLevel"))
    return DetailLevel(value)


def _media(fields: _Fields) -> dict[str, str | None]:
    return {"url": fields.text("url"), "base64_data": fields.text("base64Data"), "mime_type": fields.text("mimeType")}


def _image(fields: _Fields) -> Image:
    return Image(**_media(fields), revised_prompt=fields.text("revisedPrompt"))


def _audio(fields: _Fields) -> Audio:
    return Audio(**_media(fields), binary_data=fields.bytes("binaryData"))


def _video(fields: _Fields) -> Video:
    return Video(**_media(fields))


def _pdf_file(fields: _Fields) -> PdfFile:
    return PdfFile(**_media(fields))
