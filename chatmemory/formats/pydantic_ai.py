"""Pydantic AI's messages and their parts as messages, and back, for the history of agents; and requests for models.

Pydantic AI's mapping to providers keeps few of their rules. So ``to_pydantic_ai`` makes the memory valid, by what
the strictest of them demand. Thinking is sent only as the response that it came in, kept beside the answer: Pydantic AI
would write what has no signature as text of the answer.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeGuard

from pydantic import ValidationError
from pydantic_ai.messages import (
    ERROR_OUTCOMES,
    AudioUrl,
    BinaryContent,
    CompactionPart,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
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
from chatmemory.core.contents import (
    AudioContent,
    Content,
    ContentType,
    ImageContent,
    PdfFileContent,
    TextContent,
    VideoContent,
)
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import is_storable, with_replacements
from chatmemory.core.kept import PYDANTIC_AI_RESPONSE
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats import CannotExpressError, naming_message
from chatmemory.formats.kept_parts import is_same_answer, with_attributes
from chatmemory.formats.thinking import Thinking, bound, without_stale_thinking
from chatmemory.formats.validity import Names, Repair, Rules, make_valid

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
    if said.unsaid and isinstance(said.message, (UserMessage, ToolExecutionResultMessage)):
        said.message = with_attributes(said.message, {ATTRIBUTE: said.unsaid})
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


# The item of a content with a URL, and the MIME type of one that does not say its own.
_OF_KIND: dict[ContentType, tuple[Callable[..., UserContent], str]] = {
    ContentType.IMAGE: (ImageUrl, "image/png"),
    ContentType.AUDIO: (AudioUrl, "audio/wav"),
    ContentType.VIDEO: (VideoUrl, "video/mp4"),
    ContentType.PDF: (DocumentUrl, "application/pdf"),
}


def item_of(content: Content) -> UserContent:
    """Return the item of a content. One without data, or with invalid Base64, becomes a text that names its type."""
    if isinstance(content, TextContent):
        return content.text
    media = content.media
    if media is None:
        return f"[{content.type.lower()}]"
    kind, mime_type = _OF_KIND[content.type]
    try:
        if media.url and media.url[:5].lower() == "data:":
            return BinaryContent.from_data_uri(media.url)
        if media.url:
            return kind(media.url, media_type=media.mime_type or mime_type)
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


RESPONSE = PYDANTIC_AI_RESPONSE
"""The attribute of an answer with the response that it came in, if messages cannot express that."""

PREFIX = "pydantic_ai_prefix"
"""The attribute with the digest of what stood before it."""

_NO_TIME = datetime.fromtimestamp(0, UTC)  # it is not sent
_RULES = Rules(
    ids=Names(r"[^a-zA-Z0-9_-]", 40),
    unique_ids=True,
    tool_names=Names(r"[^a-zA-Z0-9_-]", 64),
    object_arguments=True,
    blank_texts=False,
    text_errors=True,
    user_first=True,
    says_nothing=lambda message: not (message.text or "").strip() and _kept(message) is None,
)


def to_pydantic_ai(
    messages: Sequence[ChatMessage], provider: str, *, thinking: Thinking, file_urls: bool
) -> list[ModelMessage]:
    """Return requests and responses in turn.

    Args:
        messages: the memory.
        provider: the provider; data of another model is not sent.
        thinking: the answers whose thinking may be sent.
        file_urls: whether files may be sent by their URLs.

    Raises:
        UnsupportedContentError: a ``ValueError``; a custom message, or a file by its URL.
    """
    repairs: list[Repair] = []
    valid = make_valid(messages, _RULES)
    valid = without_stale_thinking(valid, messages, thinking, _without_thinking, repairs)
    written: list[ModelMessage] = []
    for position, message in zip(valid.positions, valid.messages, strict=True):
        with naming_message(messages, position):
            made = _response(message, provider) if isinstance(message, AiMessage) else _request(message, file_urls)
        before = written[-1] if written else None
        if isinstance(made, ModelRequest) and isinstance(before, ModelRequest):
            written[-1] = replace(before, parts=[*before.parts, *made.parts])
        elif isinstance(made, ModelResponse) and isinstance(before, ModelResponse):
            thoughts = [part for part in made.parts if isinstance(part, ThinkingPart)]
            others = [part for part in made.parts if not isinstance(part, ThinkingPart)]
            first = thoughts if not any(isinstance(part, ThinkingPart) for part in before.parts) else []
            written[-1] = replace(before, parts=[*first, *before.parts, *others])
        else:
            written.append(made)
    return list(map(_with_short_ids, written)) if provider == "mistral" else written


def _with_short_ids(message: Any) -> Any:
    """Return a message whose calls have IDs of nine letters and digits, which Mistral demands."""
    parts = []
    for part in message.parts:
        id = getattr(part, "tool_call_id", None)
        if id is not None and not re.fullmatch("[a-zA-Z0-9]{9}", id):
            part = replace(part, tool_call_id=sha256(id.encode()).hexdigest()[:9])
        parts.append(part)
    return replace(message, parts=parts)


def storable_response(response: ModelResponse) -> ModelResponse:
    """Return a response as ``with_replacements`` returns its texts; itself if they are storable."""
    plain = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    if is_storable(plain):
        return response
    [storable] = ModelMessagesTypeAdapter.validate_json(json.dumps(with_replacements(plain)))
    assert isinstance(storable, ModelResponse)
    return storable


def kept_beside(message: AiMessage, response: ModelResponse, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
    """Return an answer that keeps its response, if this has more than text, plain thinking and calls.

    Args:
        message: the answer, made of the response.
        response: the response.
        messages: those that it answers.
        tools: the tools of the request, as JSON has them.
    """
    [plain] = json.loads(ModelMessagesTypeAdapter.dump_json([response]))
    if not any(_has_more(part) for part in plain["parts"]):
        return message
    kept = {"provider_name": response.provider_name, "parts": plain["parts"]}
    return bound(with_attributes(message, {**message.attributes, RESPONSE: kept}), PREFIX, messages, tools)


def _has_more(part: Mapping[str, Any]) -> bool:
    known = part["part_kind"] in ("text", "thinking", "tool-call")
    return bool(not known or part.get("signature") or part.get("provider_details"))


def _kept(message: AiMessage) -> ModelResponse | None:
    """Return the response that was kept beside an answer, as long as it says what the answer says."""
    kept = message.attributes.get(RESPONSE)
    if not isinstance(kept, Mapping):
        return None
    data = {"kind": "response", "provider_name": kept.get("provider_name"), "parts": kept.get("parts")}
    try:
        [response] = ModelMessagesTypeAdapter.validate_json(json.dumps([data], default=dict))
        is_same = isinstance(response, ModelResponse) and is_same_answer(answer(response), message)
    except (ValidationError, InvalidMessageError, TypeError):
        return None  # anybody may write attributes
    return response if is_same and isinstance(response, ModelResponse) else None


def _without_thinking(message: AiMessage) -> AiMessage | None:
    kept = _kept(message)
    if kept is None or not any(isinstance(part, ThinkingPart) for part in kept.parts):
        return None
    parts = [part for part in message.attributes[RESPONSE]["parts"] if part["part_kind"] != "thinking"]
    rest = {**message.attributes, RESPONSE: {**message.attributes[RESPONSE], "parts": parts}}
    return AiMessage(message.text, message.tool_execution_requests, attributes=rest)


def _response(message: AiMessage, provider: str) -> ModelMessage:
    kept = _kept(message)
    if kept is not None and kept.provider_name == provider:
        return kept
    return model_message(replace(message, thinking=None), _NO_TIME)


def _request(message: ChatMessage, file_urls: bool) -> ModelMessage:
    if isinstance(message, CustomMessage):
        raise CannotExpressError("%(api)s has no such messages", api="Pydantic AI")
    for content in getattr(message, "contents", ()):
        item = item_of(content)
        if isinstance(item, str) and not isinstance(content, TextContent):
            raise CannotExpressError("%(api)s needs the data of a file in Base64, or its URL", api="Pydantic AI")
        if isinstance(item, FileUrl) and not file_urls:
            raise CannotExpressError(
                "%(api)s may download the URL of a file in this process; give the file's data, or allow it by "
                "PydanticAiChatModel(file_urls=True)",
                api="Pydantic AI",
            )
    return model_message(message, _NO_TIME)
