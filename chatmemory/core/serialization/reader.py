"""The strict reader of messages: exactly LangChain4j's shape, or an error with its field path."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from chatmemory.core.contents import (
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
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import TypedTwice
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ChatMessageType,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization.fields import Fields, expected
from chatmemory.core.serialization.storable import require_json

__all__ = ["read_message", "read_messages"]

T = TypeVar("T")


def read_messages(data: Any, place: str = "", *, strict: bool = True) -> list[ChatMessage]:
    """Read messages from a parsed JSON array; none from null."""
    if data is None:
        return []
    if not isinstance(data, list):
        raise expected("a list of messages", data, place)
    return [read_message(item, f"{place}[{index}]", strict=strict) for index, item in enumerate(data)]


def read_message(data: Any, place: str = "", *, strict: bool = True) -> ChatMessage:
    """Read a message from a parsed JSON object. Unless ``strict``, ignore unknown fields."""
    fields = _Fields(data, place, strict)
    kind = fields.type(ChatMessageType)
    return fields.build(_MESSAGES[kind])


class _Fields(Fields):
    """The fields of one of LangChain4j's objects, any of which may be missing."""

    def __init__(self, data: Any, place: str, strict: bool) -> None:
        super().__init__(data, place)
        self._typed_twice = isinstance(data, TypedTwice)
        self._strict = strict

    def type(self, kinds: type[ContentType] | type[ChatMessageType]) -> Any:
        if self._typed_twice:
            raise InvalidMessageError("given twice", self.at("type"), code="repeated")
        return kinds(self.choice("type", kinds.__members__))

    def flag(self, key: str) -> bool | None:
        return self.value(key, bool, "true or false") if self.has(key) else None

    def bytes(self, key: str) -> bytes | None:
        value = self.optional_text(key)
        try:
            return None if value is None else base64.b64decode(value, validate=True)
        except ValueError as error:
            raise InvalidMessageError("expected Base64: %(error)s", self.at(key), error=str(error)) from error

    def attributes(self) -> Mapping[str, Any] | None:
        if not self.has("attributes"):
            return None
        value: Mapping[str, Any] = self.value("attributes", Mapping, "an object")
        require_json(value, self.at("attributes"), 1)
        return value

    def optional_object(self, key: str, read: Callable[[Self], T]) -> T | None:
        return self.object(key, read) if self.has(key) else None

    def refuse_others(self, *known: str) -> None:
        if self._strict:
            super().refuse_others(*known)

    def _within(self, data: Any, place: str) -> Self:
        return type(self)(data, place, self._strict)


def _system(fields: _Fields) -> SystemMessage:
    return SystemMessage(fields.optional_text("text"))  # type: ignore[arg-type]  # the constructor refuses None


def _user(fields: _Fields) -> UserMessage:
    return UserMessage(
        contents=fields.items("contents", _content), name=fields.optional_text("name"), attributes=fields.attributes()
    )


def _ai(fields: _Fields) -> AiMessage:
    return AiMessage(
        fields.optional_text("text"),
        fields.items("toolExecutionRequests", _request),
        thinking=fields.optional_text("thinking"),
        attributes=fields.attributes(),
    )


def _tool_result(fields: _Fields) -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(
        fields.optional_text("id"),
        fields.optional_text("toolName"),
        fields.optional_text("text"),
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
    return ToolExecutionRequest(
        fields.optional_text("id"), fields.optional_text("name"), fields.optional_text("arguments")
    )


def _content(fields: _Fields) -> Content:
    match fields.type(ContentType):
        case ContentType.TEXT:
            return TextContent(fields.optional_text("text"))  # type: ignore[arg-type]  # the constructor refuses None
        case ContentType.IMAGE:
            return ImageContent(image=fields.optional_object("image", _image), detail_level=_detail_level(fields))
        case ContentType.AUDIO:
            return AudioContent(audio=fields.optional_object("audio", _audio))
        case ContentType.VIDEO:
            return VideoContent(video=fields.optional_object("video", _video))
        case _:
            return PdfFileContent(pdf_file=fields.optional_object("pdfFile", _pdf_file))


def _detail_level(fields: _Fields) -> DetailLevel:
    value = fields.optional_text("detailLevel")
    if value is None or value not in DetailLevel.__members__:
        raise InvalidMessageError(
            "expected one of %(choices)s",
            fields.at("detailLevel"),
            code="required" if value is None else "invalid_choice",
            choices=[*DetailLevel.__members__],
        )
    return DetailLevel(value)


def _media(fields: _Fields) -> dict[str, str | None]:
    return {
        "url": fields.optional_text("url"),
        "base64_data": fields.optional_text("base64Data"),
        "mime_type": fields.optional_text("mimeType"),
    }


def _image(fields: _Fields) -> Image:
    return Image(**_media(fields), revised_prompt=fields.optional_text("revisedPrompt"))


def _audio(fields: _Fields) -> Audio:
    return Audio(**_media(fields), binary_data=fields.bytes("binaryData"))


def _video(fields: _Fields) -> Video:
    return Video(**_media(fields))


def _pdf_file(fields: _Fields) -> PdfFile:
    return PdfFile(**_media(fields))
