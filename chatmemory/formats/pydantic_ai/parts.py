"""Pydantic AI's messages and their parts as messages, and back, for the history of agents and for models."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeGuard

from pydantic_ai.messages import (
    ERROR_OUTCOMES,
    AudioUrl,
    BinaryContent,
    CompactionPart,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    SpeechPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.messages import TextContent as PydanticText

from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import AudioContent, Content, ImageContent, PdfFileContent, TextContent, VideoContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)

__all__ = ["ATTRIBUTE", "FRAMEWORK", "Said", "answer", "item_of", "model_message", "said_in"]

FRAMEWORK = "pydantic_ai"
"""The framework of the native forms."""

ATTRIBUTE = FRAMEWORK
"""The attribute that lists the kinds of the parts that a message cannot express."""


@dataclass
class Said:
    """One message, and the parts of a request that it was made of."""

    message: ChatMessage
    parts: list[int]
    """The indexes of the parts that it expresses, and of those that are kept with them."""

    unsaid: list[str] = field(default_factory=list)
    """The kinds of the parts that are kept with them."""


def said_in(request: ModelRequest) -> list[Said]:
    """Return the messages of a request, at least one: tool results first, since they must follow their calls."""
    found: dict[int, Said] = {}
    prompts = {index: part.content for index, part in enumerate(request.parts) if _is_standing(part)}
    system = list(prompts)
    if system:
        found[system[0]] = Said(SystemMessage("\n\n".join(prompts.values())), system)
    for index, part in enumerate(request.parts):
        message = None if index in system else _message(part)
        if message is not None:
            found[index] = Said(message, [index])
    if not found:
        kinds = [part.part_kind for part in request.parts]
        return [Said(CustomMessage({ATTRIBUTE: kinds}), list(range(len(request.parts))))]
    for index, part in enumerate(request.parts):
        if index not in system and index not in found:
            keeper = max((other for other in found if other < index), default=min(found))
            found[keeper].parts.append(index)
            found[keeper].unsaid.append(part.part_kind)
    said = [_with_kinds(found[index]) for index in sorted(found)]
    return sorted(said, key=lambda one: not isinstance(one.message, ToolExecutionResultMessage))


def answer(response: ModelResponse) -> AiMessage:
    """Return the message of a response."""
    said = (TextPart, ThinkingPart, ToolCallPart)
    unsaid = [part.part_kind for part in response.parts if not isinstance(part, said)]
    return AiMessage(
        response.text,
        [ToolExecutionRequest(call.tool_call_id, call.tool_name, _arguments(call)) for call in response.tool_calls],
        thinking=response.thinking,
        attributes={ATTRIBUTE: unsaid} if unsaid else None,
    )


def model_message(message: ChatMessage, when: datetime) -> ModelMessage:
    """Return a message of this app as a message of Pydantic AI's.

    Args:
        message: a message whose tool calls and results have IDs.
        when: the time when it was said.
    """
    match message:
        case SystemMessage():
            return ModelRequest([SystemPromptPart(message.text, timestamp=when)], timestamp=when)
        case UserMessage():
            content = _user_content(message.contents)
            return ModelRequest([UserPromptPart(content, timestamp=when)], timestamp=when)
        case AiMessage():
            return ModelResponse(list(_response_parts(message)), timestamp=when)
        case ToolExecutionResultMessage():
            content = _user_content(message.contents)
            part: ToolReturnPart[Any] = ToolReturnPart(
                message.tool_name or "_",
                content,
                message.id or "",
                timestamp=when,
                outcome="failed" if message.is_error else "success",
            )
            return ModelRequest([part], timestamp=when)
    attributes = message.attributes if isinstance(message, CustomMessage) else {}
    text = f"[custom message: {json.dumps(attributes, ensure_ascii=False)}]"
    return ModelRequest([UserPromptPart(text, timestamp=when)], timestamp=when)


def _is_standing(part: ModelRequestPart) -> TypeGuard[SystemPromptPart]:
    """Return whether a part belongs to the system message: it holds for more than one request, and changes no other."""
    if not isinstance(part, SystemPromptPart) or is_blank(part.content):
        return False
    return part.context_id is None and part.scope == "conversation"


def _with_kinds(said: Said) -> Said:
    message = said.message
    if said.unsaid and isinstance(message, UserMessage):
        said.message = UserMessage(message.contents, attributes={ATTRIBUTE: said.unsaid})
    elif said.unsaid and isinstance(message, ToolExecutionResultMessage):
        said.message = ToolExecutionResultMessage(
            message.id,
            message.tool_name,
            contents=message.contents,
            is_error=message.is_error,
            attributes={ATTRIBUTE: said.unsaid},
        )
    return said


def _message(part: Any) -> ChatMessage | None:
    """Return the message that a part of a request becomes; None if it becomes none of its own."""
    match part:
        case UserPromptPart():
            return UserMessage(_contents([part.content] if isinstance(part.content, str) else part.content))
        case ToolReturnPart():
            text, files = part.model_response_str(wrap_if_error=False), part.files
            contents = ([TextContent(text)] if text or not files else []) + [_content(file) for file in files]
            error = True if part.outcome in ERROR_OUTCOMES else None
            return ToolExecutionResultMessage(part.tool_call_id, part.tool_name, contents=contents, is_error=error)
        case RetryFeedbackPart():
            return UserMessage(part.model_response())
        case CompactionPart(content=str(text)):
            return UserMessage(text)
        case SpeechPart():
            audio = [] if part.audio is None else [_content(part.audio)]
            return UserMessage([*([] if part.transcript is None and audio else [TextContent(part.content)]), *audio])
    return None


def _arguments(call: ToolCallPart[Any]) -> str | None:
    return call.args_as_json_str() if isinstance(call.args, dict) else call.args


def _contents(given: Sequence[UserContent]) -> list[Content]:
    """Return the contents, at least one."""
    return [_content(item) for item in given if getattr(item, "kind", None) != "cache-point"] or [TextContent("")]


def _content(item: UserContent) -> Content:
    """Return the content of an item. A file that messages here cannot express becomes a text that names it."""
    if isinstance(item, str):
        return TextContent(item)
    if isinstance(item, PydanticText):
        return TextContent(item.content)
    try:
        if isinstance(item, FileUrl):
            return _by_url(item)
        if isinstance(item, BinaryContent):
            return _by_data(item)
    except ValueError:
        pass
    name = getattr(item, "url", None) or getattr(item, "file_id", None) or getattr(item, "media_type", "")
    return TextContent(f"[{item.kind} {name}]")


def _by_url(item: FileUrl) -> Content:
    if isinstance(item, ImageUrl):
        return ImageContent(item.url)
    if isinstance(item, AudioUrl):
        return AudioContent(item.url)
    if isinstance(item, VideoUrl):
        return VideoContent(item.url)
    if item.media_type == "application/pdf":
        return PdfFileContent(item.url)
    raise ValueError("no content")


def _by_data(item: BinaryContent) -> Content:
    given: dict[str, Any] = {"base64_data": item.base64, "mime_type": item.media_type}
    if item.is_image:
        return ImageContent(**given)
    if item.is_audio:
        return AudioContent(**given)
    if item.is_video:
        return VideoContent(**given)
    if item.media_type == "application/pdf":
        return PdfFileContent(**given)
    raise ValueError("no content")


def _user_content(contents: Iterable[Content]) -> Any:
    items = [item_of(content) for content in contents]
    return items[0] if len(items) == 1 and isinstance(items[0], str) else items


def item_of(content: Content) -> UserContent:
    """Return the item of a content. One without data, or with invalid Base64, becomes a text that names its type."""
    kind: Any
    media: Any
    match content:
        case TextContent():
            return content.text
        case ImageContent():
            kind, media, mime_type = ImageUrl, content.image, "image/png"
        case AudioContent():
            kind, media, mime_type = AudioUrl, content.audio, "audio/wav"
        case VideoContent():
            kind, media, mime_type = VideoUrl, content.video, "video/mp4"
        case PdfFileContent():
            kind, media, mime_type = DocumentUrl, content.pdf_file, "application/pdf"
    if media is None:
        return f"[{content.type.lower()}]"
    try:
        if media.url and media.url[:5].lower() == "data:":
            return BinaryContent.from_data_uri(media.url)
        if media.url:
            by_url: UserContent = kind(media.url, media_type=media.mime_type or mime_type)
            return by_url
        data = getattr(media, "binary_data", None)
        if data is None:
            data = base64.b64decode(media.base64_data or "", validate=True)
        return BinaryContent.narrow_type(BinaryContent(data, media_type=media.mime_type or mime_type))
    except ValueError:
        return f"[{content.type.lower()}]"


def _response_parts(message: AiMessage) -> Iterator[ModelResponsePart]:
    if message.thinking is not None:
        yield ThinkingPart(message.thinking)
    if message.text is not None:
        yield TextPart(message.text)
    for request in message.tool_execution_requests:
        yield ToolCallPart(request.name or "_", request.arguments, request.id or "")
