"""The strict reader of messages: exactly LangChain4j's shape, or an error that names the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from chatmemory.core.serialization.fields import _expected, _Fields

__all__ = ["read_message", "read_messages"]


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
