"""LlamaIndex's messages as messages of a conversation, and back.

LlamaIndex's own ``model_dump(mode="json")`` is stored beside a message, so that LlamaIndex reads messages equal to
those it added: blocks of every kind, signatures, ``additional_kwargs``. As in LlamaIndex's own stores, they go through
JSON: in ``additional_kwargs`` an object becomes a dict, a tuple a list, and a number that is not finite None.

How other programs read LlamaIndex's messages:

- A block that messages here cannot express, such as a local file, is its type in brackets: ``[image]``. A cache point
  is left out. The citations of an answer are left to LlamaIndex.
- Calls in ``additional_kwargs["tool_calls"]``, where older integrations have them, are calls like those in blocks.
- A blank system message is a custom message.

How LlamaIndex reads the messages of other programs: a custom message is a user's, with its attributes as JSON. The name
of a tool, whether its result is an error, and attributes are left out. A message with a local file that is gone is read
as other programs read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llama_index.core.base.llms import types as li
from pydantic import ValidationError

from chatmemory.contrib.native_memory import request_of
from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import (
    Audio,
    AudioContent,
    Content,
    DetailLevel,
    Image,
    ImageContent,
    Media,
    PdfFile,
    PdfFileContent,
    TextContent,
    Video,
    VideoContent,
)
from chatmemory.core.json_text import dumps
from chatmemory.core.kept import THINKING_SIGNATURE
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats.media import data_of
from chatmemory.formats.validity import arguments_object
from chatmemory.models import Message

FRAMEWORK = "llama-index"
"""The framework of the native forms."""

_Role = li.MessageRole
_AUDIO_TYPES = {"mp3": "audio/mpeg", "m4a": "audio/mp4"}


def to_chat_message(message: li.ChatMessage) -> ChatMessage:
    """Return a message of LlamaIndex's as a message of this app.

    Raises:
        TypeError: it is not a message of LlamaIndex's.
        ValueError: it holds a value that has no JSON form.
    """
    form = _dumped(message)
    kwargs = form["additional_kwargs"]
    contents = [content for block in form["blocks"] for content in _contents(block)]
    match message.role:
        case _Role.USER:
            return UserMessage(contents=contents or [TextContent("")], name=_text(kwargs.get("name")))
        case _Role.SYSTEM | _Role.DEVELOPER:
            text = "\n".join(content.text for content in contents if isinstance(content, TextContent))
            if not is_blank(text):
                return SystemMessage(text)
            return CustomMessage({"framework": FRAMEWORK, "type": message.role.value, "text": text})
        case _Role.TOOL | _Role.FUNCTION:
            return ToolExecutionResultMessage(
                _text(kwargs.get("tool_call_id")),
                _text(kwargs.get("name")),
                contents=contents or [TextContent("")],
            )
    return _answer(form["blocks"], kwargs)


def form_of(message: li.ChatMessage) -> dict[str, Any] | None:
    """Return ``message`` as a JSON value; None if ``to_chat_message`` expresses all of it.

    Raises:
        TypeError: it is not a message of LlamaIndex's.
        ValueError: it holds a value that has no JSON form, or that LlamaIndex cannot read back.
    """
    form = _dumped(message)
    alike = _dumped(from_chat_message(to_chat_message(message)))
    return None if json.dumps(form) == json.dumps(alike) else form


def from_row(row: Message, message: ChatMessage | None = None) -> li.ChatMessage:
    """Return the message of a row for LlamaIndex: one equal to its own, or another program's, converted.

    Args:
        row: a row of the conversation.
        message: the message to convert instead of the row's own.
    """
    form = row.native_of(FRAMEWORK)
    if form is not None:
        try:
            return li.ChatMessage.model_validate(form)
        except ValidationError:  # it requires that files exist
            pass
    return from_chat_message(row.message if message is None else message)


def from_chat_message(message: ChatMessage) -> li.ChatMessage:
    """Return a message of this app as a message of LlamaIndex's."""
    match message:
        case SystemMessage():
            return _message(_Role.SYSTEM, [li.TextBlock(text=message.text)])
        case UserMessage():
            return _message(_Role.USER, map(_block, message.contents), name=message.name)
        case ToolExecutionResultMessage():
            return _message(_Role.TOOL, map(_block, message.contents), tool_call_id=message.id)
        case AiMessage():
            blocks: list[Any] = []
            if message.thinking is not None:
                signature = message.attributes.get(THINKING_SIGNATURE)
                known = {"signature": signature} if isinstance(signature, str) else {}
                blocks.append(li.ThinkingBlock(content=message.thinking, additional_information=known))
            if message.text is not None:
                blocks.append(li.TextBlock(text=message.text))
            return _message(_Role.ASSISTANT, [*blocks, *map(_call, message.tool_execution_requests)])
        case CustomMessage():
            return _message(_Role.USER, [li.TextBlock(text=dumps(message.attributes))])
    raise TypeError(f"expected a message, but is: {type(message).__name__}")


def _dumped(message: li.ChatMessage) -> dict[str, Any]:
    if not isinstance(message, li.ChatMessage):
        raise TypeError(f"expected a message of LlamaIndex's, but is: {type(message).__name__}")
    try:
        form: dict[str, Any] = json.loads(json.dumps(message.model_dump(mode="json"), allow_nan=False))
        li.ChatMessage.model_validate(form)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"a message of the {message.role.value} cannot be kept as JSON: {error}") from error
    return form


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _contents(block: Mapping[str, Any]) -> list[Content]:
    match block["block_type"]:
        case "text":
            return [TextContent(block["text"])]
        case "citable":
            return [content for part in block["content"] for content in _contents(part)]
        case "citation":
            return _contents(block["cited_content"])
        case "cache" | "thinking" | "tool_call":
            return []
        case type:
            return [_medium(block, type) or TextContent(f"[{type}]")]


def _medium(block: Mapping[str, Any], type: str) -> Content | None:
    data = block["data" if type == "document" else type]
    if block["path"] is not None or (not data and not block["url"]):
        return None
    where: dict[str, Any] = {"url": block["url"], "base64_data": data or None}
    try:
        match type:
            case "image":
                level = (block["detail"] or "").upper()
                detail = DetailLevel(level) if level in DetailLevel.__members__ else DetailLevel.AUTO
                return ImageContent(image=Image(**where, mime_type=block["image_mimetype"]), detail_level=detail)
            case "audio":
                format = block["format"]
                mime_type = _AUDIO_TYPES.get(format, f"audio/{format}") if format else None
                return AudioContent(audio=Audio(**where, mime_type=mime_type))
            case "video":
                return VideoContent(video=Video(**where, mime_type=block["video_mimetype"]))
            case "document" if block["document_mimetype"] == "application/pdf":
                return PdfFileContent(pdf_file=PdfFile(**where))
    except ValueError:  # an invalid URL
        pass
    return None


def _answer(blocks: list[dict[str, Any]], kwargs: Mapping[str, Any]) -> AiMessage:
    texts: list[str] = []
    thoughts: list[dict[str, Any]] = []
    requests: list[ToolExecutionRequest] = []
    for block in blocks:
        match block["block_type"]:
            case "thinking":
                thoughts.append(block)
            case "tool_call":
                requests.append(request_of(block["tool_call_id"], block["tool_name"], block["tool_kwargs"]))
            case "citation":
                pass
            case type:
                texts += [
                    content.text if isinstance(content, TextContent) else f"[{type}]" for content in _contents(block)
                ]
    older = kwargs.get("tool_calls")
    if not requests and isinstance(older, list):
        requests += [request for call in older if (request := _older_request(call)) is not None]
    signatures = [_text(thought["additional_information"].get("signature")) for thought in thoughts]
    signature = "\n".join(filter(None, signatures))
    return AiMessage(
        "\n".join(texts) if texts else None,
        requests,
        thinking="\n".join(thought["content"] or "" for thought in thoughts) if thoughts else None,
        attributes={THINKING_SIGNATURE: signature} if signature else None,
    )


def _older_request(call: Any) -> ToolExecutionRequest | None:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return None
    return request_of(_text(call.get("id")), _text(function.get("name")), function.get("arguments"))


def _message(role: li.MessageRole, blocks: Iterable[Any], **kwargs: str | None) -> li.ChatMessage:
    given = {name: value for name, value in kwargs.items() if value is not None}
    return li.ChatMessage(role=role, blocks=list(blocks), additional_kwargs=given)


def _call(request: ToolExecutionRequest) -> li.ToolCallBlock:
    arguments = arguments_object(request.arguments)
    return li.ToolCallBlock(
        tool_call_id=request.id,
        tool_name=request.name or "",
        tool_kwargs=(request.arguments or "") if arguments is None else arguments,
    )


def _block(content: Content) -> Any:
    match content:
        case TextContent():
            return li.TextBlock(text=content.text)
        case ImageContent(image=image):
            detail = None if content.detail_level is DetailLevel.AUTO else content.detail_level.value.lower()
            return _made(content, image, li.ImageBlock, "image", image_mimetype=image.mime_type, detail=detail)
        case AudioContent(audio=Audio() as audio):
            subtypes = {mime_type: format for format, mime_type in _AUDIO_TYPES.items()}
            mime_type = audio.mime_type or ""
            format = subtypes.get(mime_type) or mime_type.removeprefix("audio/") or None
            return _made(content, audio, li.AudioBlock, "audio", format=format)
        case VideoContent(video=Video() as video):
            return _made(content, video, li.VideoBlock, "video", video_mimetype=video.mime_type)
        case PdfFileContent(pdf_file=PdfFile() as file):
            return _made(content, file, li.DocumentBlock, "data", document_mimetype=file.mime_type)
    return _stand_in(content)


def _made(content: Content, medium: Media, kind: Callable[..., Any], field: str, **more: str | None) -> Any:
    data = data_of(medium)
    if data is None and not medium.url:
        return _stand_in(content)
    try:
        return kind(**{field: None if data is None else data.base64.encode()}, url=medium.url, **more)
    except ValueError:  # LlamaIndex takes no relative URLs
        return _stand_in(content)


def _stand_in(content: Content) -> li.TextBlock:
    return li.TextBlock(text=f"[{content.type.lower()}]")
