"""LangChain's messages as messages of a conversation, and back.

LangChain's own ``message_to_dict()`` is stored beside a message, so that LangChain reads messages equal to those it
added: IDs, metadata, usage, artifacts, blocks of any provider. As in all of LangChain's stores they go through JSON: an
object in an artifact becomes a dict, a tuple a list.

How other programs read LangChain's messages:

- A block of content that messages here cannot express is its type in brackets, such as ``[file]``. In an answer only
  media are; reasoning is its thinking, and other blocks of a provider are left to LangChain.
- Calls that LangChain could not parse are calls too: their arguments are the text that the model wrote.
- A chat message has the role that it names; a function message is a tool result without an ID.
- Every other message (a chat message of another role, a removal, a blank system message) is a custom message.

How LangChain reads the messages of other programs: thinking is ``additional_kwargs["reasoning_content"]``, which
content blocks show and providers ignore; a custom message is a chat message of the role ``custom`` with its attributes
as JSON; a result without an ID has an empty one. Attributes of other messages are left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

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
from chatmemory.core.exceptions import extra
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
from chatmemory.formats.validity import arguments_object
from chatmemory.models import Message

with extra("langchain"):
    from langchain_core import messages as lc

FRAMEWORK = "langchain"
"""The framework of the native forms."""

_ROLES = {"user": "human", "human": "human", "assistant": "ai", "ai": "ai", "system": "system", "developer": "system"}
_MEDIA = ("image", "audio", "video", "file")


def to_chat_message(message: lc.BaseMessage) -> ChatMessage:
    """Return a message of LangChain's as a message of this app.

    Raises:
        TypeError: it is not a message of LangChain's, or the arguments of a call have no JSON form.
    """
    if not isinstance(message, lc.BaseMessage):
        raise TypeError(f"expected a message of LangChain's, but is: {type(message).__name__}")
    if isinstance(message, lc.ToolMessage):
        is_error = True if message.status == "error" else None
        return ToolExecutionResultMessage(
            message.tool_call_id, message.name, contents=_contents(message), is_error=is_error
        )
    if isinstance(message, lc.FunctionMessage):
        return ToolExecutionResultMessage(None, message.name, contents=_contents(message))
    kind = _ROLES.get(message.role) if isinstance(message, lc.ChatMessage) else None
    if isinstance(message, lc.HumanMessage) or kind == "human":
        return UserMessage(contents=_contents(message), name=message.name)
    if isinstance(message, lc.AIMessage) or kind == "ai":
        return _answer(message)
    if isinstance(message, lc.SystemMessage) or kind == "system":
        text = "\n".join(content.text for content in _contents(message) if isinstance(content, TextContent))
        if not is_blank(text):
            return SystemMessage(text)
    said = {"role": message.role} if isinstance(message, lc.ChatMessage) else {}
    return CustomMessage({"framework": FRAMEWORK, "type": message.type, **said, "text": str(message.text)})


def form_of(message: lc.BaseMessage) -> dict[str, Any] | None:
    """Return ``message`` as a JSON value; None if ``to_chat_message`` expresses all of it.

    Raises:
        TypeError: it holds a value that has no JSON form.
        ValueError: it holds a number that is not finite, or is of a type that LangChain cannot read back.
    """
    try:
        text = json.dumps(lc.message_to_dict(message), allow_nan=False)
        form: dict[str, Any] = json.loads(text)
        lc.messages_from_dict([form])
    except (TypeError, ValueError) as error:
        # Neither error names the message.
        name = f"{type(message).__name__} {message.id or ''}".strip()
        raise type(error)(f"{name} cannot be kept: its artifact and metadata must be JSON values: {error}") from None
    alike = json.dumps(lc.message_to_dict(from_chat_message(to_chat_message(message))))
    return None if text == alike else form


def from_row(row: Message, message: ChatMessage | None = None) -> lc.BaseMessage:
    """Return the message of a row for LangChain: the one that it added itself, or another program's, converted.

    Args:
        row: a row of the conversation.
        message: the message to convert instead of the row's own.
    """
    form = row.native_of(FRAMEWORK)
    if form is None:
        return from_chat_message(row.message if message is None else message)
    return lc.messages_from_dict([form])[0]


def from_chat_message(message: ChatMessage) -> lc.BaseMessage:
    """Return a message of this app as a message of LangChain's."""
    match message:
        case SystemMessage():
            return lc.SystemMessage(message.text)
        case UserMessage():
            return lc.HumanMessage(_content(message.contents), name=message.name)
        case ToolExecutionResultMessage():
            return lc.ToolMessage(
                _content(message.contents),
                tool_call_id=message.id or "",
                name=message.tool_name,
                status="error" if message.is_error else "success",
            )
        case AiMessage():
            calls = [_call(request) for request in message.tool_execution_requests]
            return lc.AIMessage(
                message.text or "",
                tool_calls=[call for call in calls if call["type"] == "tool_call"],
                invalid_tool_calls=[call for call in calls if call["type"] == "invalid_tool_call"],
                additional_kwargs={} if message.thinking is None else {"reasoning_content": message.thinking},
            )
        case CustomMessage():
            return lc.ChatMessage(content=dumps(message.attributes), role="custom")
    raise TypeError(f"expected a message, but is: {type(message).__name__}")


def _blocks(message: lc.BaseMessage) -> list[dict[str, Any]]:
    """Return the content in LangChain's standard blocks, as far as LangChain can translate its providers'."""
    try:
        return cast(list[dict[str, Any]], message.content_blocks)
    except Exception:  # a message that names a provider is taken for its; if it is not, anything may be raised
        return [{"type": "non_standard", "value": block} for block in message.content]


def _contents(message: lc.BaseMessage) -> list[Content]:
    if isinstance(message.content, str):
        return [TextContent(message.content)]
    return [_part(block) for block in _blocks(message)] or [TextContent("")]


def _part(block: Mapping[str, Any]) -> Content:
    type = block.get("type")
    if type in ("text", "text-plain") and isinstance(block.get("text"), str):
        return TextContent(block["text"])
    try:
        return _medium(block) or _stand_in(block)
    except (TypeError, ValueError):  # an invalid URL, for example
        return _stand_in(block)


def _medium(block: Mapping[str, Any]) -> Content | None:
    where = {"url": block.get("url"), "base64_data": block.get("base64"), "mime_type": block.get("mime_type")}
    if where["url"] is None and where["base64_data"] is None:
        return None
    match block["type"]:
        case "image":
            level = _extra(block, "detail").upper()
            detail = DetailLevel(level) if level in DetailLevel.__members__ else DetailLevel.AUTO
            return ImageContent(image=Image(**where), detail_level=detail)
        case "audio":
            return AudioContent(audio=Audio(**where))
        case "video":
            return VideoContent(video=Video(**where))
        case "file" if where["mime_type"] == "application/pdf":
            return PdfFileContent(pdf_file=PdfFile(**where))
    return None


def _extra(block: Mapping[str, Any], name: str) -> str:
    extras = block.get("extras")
    value = extras.get(name) if isinstance(extras, Mapping) else None
    return value if isinstance(value, str) else ""


def _stand_in(block: Mapping[str, Any]) -> TextContent:
    value = block.get("value")
    named = value if block.get("type") == "non_standard" and isinstance(value, Mapping) else block
    return TextContent(f"[{named.get('type')}]")


def _answer(message: lc.BaseMessage) -> AiMessage:
    texts: list[str] = []
    thoughts: list[str] = []
    signatures: list[str] = []
    for block in _blocks(message):
        value = block.get("value")
        if isinstance(value, Mapping) and value.get("type") == "thinking":  # Anthropic's, but unnamed
            block = {"type": "reasoning", "reasoning": value.get("thinking"), "extras": value}
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif block.get("type") == "reasoning":
            thoughts.append(str(block.get("reasoning") or ""))
            signatures.append(_extra(block, "signature"))
        elif block.get("type") in _MEDIA:
            texts.append(_stand_in(block).text)
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    requests = [request_of(call["id"], call["name"], call["args"]) for call in calls]
    function = message.additional_kwargs.get("function_call")
    if isinstance(function, Mapping) and not requests:
        requests.append(request_of(None, function.get("name"), function.get("arguments")))
    refusal = message.additional_kwargs.get("refusal")
    text = "".join(texts) or (refusal if isinstance(refusal, str) else "")
    thinking = "\n".join(thoughts) if thoughts else None
    signature = "\n".join(filter(None, signatures))
    return AiMessage(
        text or (None if requests or thoughts else ""),
        requests,
        thinking=thinking,
        attributes={THINKING_SIGNATURE: signature} if signature else None,
    )


def _call(request: ToolExecutionRequest) -> dict[str, Any]:
    args = arguments_object(request.arguments)
    if args is None or request.name is None:
        return dict(lc.tool.invalid_tool_call(name=request.name, args=request.arguments, id=request.id))
    return dict(lc.tool.tool_call(name=request.name, args=args, id=request.id))


def _content(contents: Iterable[Content]) -> str | list[str | dict[Any, Any]]:
    blocks = [_block(content) for content in contents]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return cast(str, blocks[0]["text"])
    return [*blocks]


def _block(content: Content) -> dict[str, Any]:
    match content:
        case TextContent():
            return {"type": "text", "text": content.text}
        case ImageContent(image=medium):
            type = "image"
        case AudioContent(audio=Audio() as medium):
            type = "audio"
        case VideoContent(video=Video() as medium):
            type = "video"
        case PdfFileContent(pdf_file=PdfFile() as medium):
            type = "file"
        case _:
            return _empty(content)
    where = _where(medium)
    if "url" not in where and "base64" not in where:
        return _empty(content)
    if isinstance(content, ImageContent) and content.detail_level is not DetailLevel.AUTO:
        where["extras"] = {"detail": content.detail_level.value.lower()}
    return {"type": type, **where}


def _empty(content: Content) -> dict[str, Any]:
    return {"type": "text", "text": f"[{content.type.lower()}]"}


def _where(medium: Media) -> dict[str, Any]:
    data = medium.base64_data
    if data is None and isinstance(medium, Audio) and medium.binary_data is not None:
        data = base64.b64encode(medium.binary_data).decode()
    where = {"url": medium.url, "base64": data, "mime_type": medium.mime_type}
    return {key: value for key, value in where.items() if value is not None}
