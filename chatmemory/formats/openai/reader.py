"""The strict reader of OpenAI's messages; see :mod:`chatmemory.formats.openai`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from chatmemory.core.contents import AudioContent, Content, PdfFileContent, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import require_json, require_storable
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats.kept_parts import with_tool_names
from chatmemory.formats.media import openai_image, openai_pdf_file

ATTRIBUTE = "openai"
"""The attribute for what only OpenAI has: ``name``, ``refusal``, ``annotations``, ``audio``; and for what other servers
put on an answer (``extra``) and on each of its calls (``calls``)."""

OF_ANSWER = (
    "role",
    "content",
    "name",
    "refusal",
    "annotations",
    "audio",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
)
"""The fields of an answer whose meaning is known."""

OF_CALL = ("id", "type", "index", "function", "custom")
"""The fields of a tool call whose meaning is known."""

_REFUSED_ROLES = {"function": "the role function is deprecated; use tool, with a tool_call_id"}


def from_openai(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from OpenAI's list in parsed JSON, or from what its SDK dumps.

    ``null`` is the same as a field that is not there. A refusal is the text of an answer that has no other. What only
    OpenAI has is kept under the attribute ``openai``. A tool result gets the name of the tool that an earlier
    message of the list calls by its ID, unless it has a ``name`` itself.

    What other servers of this API add is read where its meaning is plain: ``reasoning_content`` (DeepSeek, vLLM) or
    ``reasoning`` (vLLM, OpenRouter) of an answer is its thinking. All else that they put on an answer or a tool call,
    such as ``extra_content`` with Gemini's ``thought_signature``, is kept, for they may want it back.

    Args:
        place: what the list is called in errors, ``messages`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].tool_calls[0].function.name``.
    """
    if not isinstance(data, (list, tuple)):
        raise expected("a list of messages", data, place)
    return list(with_tool_names(_message(Fields(item, f"{place}[{index}]")) for index, item in enumerate(data)))


def _message(fields: Fields) -> ChatMessage:
    return fields.build(_ROLES[fields.choice("role", _ROLES, _REFUSED_ROLES)])


def _system(fields: Fields) -> SystemMessage:
    fields.refuse("name", "the name of a system message cannot be kept; leave it out")
    content = fields.content(_TEXT_PARTS)
    return SystemMessage(content if isinstance(content, str) else _joined(content))


def _tool(fields: Fields) -> ToolExecutionResultMessage:
    id, name = fields.text("tool_call_id"), fields.optional_text("name") or None
    content = fields.content(_TEXT_PARTS)
    contents = [TextContent(content)] if isinstance(content, str) else content
    return ToolExecutionResultMessage(id, name, contents=contents)


def _assistant(fields: Fields) -> AiMessage:
    fields.refuse("function_call", "function_call is deprecated; use tool_calls")
    content = fields.content(_ASSISTANT_PARTS) if fields.has("content") else None
    refusal = fields.optional_text("refusal")
    if isinstance(content, list):
        refused = [part for part in content if isinstance(part, str)]
        texts = [part for part in content if isinstance(part, TextContent)]
        if refusal and refused:
            raise InvalidMessageError("given twice, there is one in the content", fields.at("refusal"), code="repeated")
        refusal = refusal or "".join(refused)
        content = _joined(texts) if texts else None
    kept = {
        "name": fields.optional_text("name"),
        "refusal": refusal,
        "annotations": _kept(fields, "annotations", (list, tuple), "a list"),
        "audio": _kept(fields, "audio", Mapping, "an object"),
    }
    if kept["audio"] is not None:
        Fields(kept["audio"], fields.at("audio")).text("id")
    calls = fields.items("tool_calls", _tool_call)
    thinking = _thinking(fields)
    if any(extra for _, extra in calls):
        kept["calls"] = [extra for _, extra in calls]
    kept["extra"] = _others(fields, OF_ANSWER, 4)
    kept = {key: value for key, value in kept.items() if value}
    return AiMessage(
        refusal or None if content is None else content,
        [request for request, _ in calls],
        thinking=thinking,
        attributes={ATTRIBUTE: kept} if kept else None,
    )


def _others(fields: Fields, known: Iterable[str], depth: int) -> dict[str, Any]:
    """Take out the fields that another server put there; refuse a known field that is misspelt."""
    others = fields.others()
    for key, value in others.items():
        if len(key) < 40 and (meant := get_close_matches(key, known, 1, 0.85)):
            raise InvalidMessageError(
                "unknown field; did you mean %(meant)s?", fields.at(key[:100]), code="unknown_field", meant=meant[0]
            )
        require_storable(key, fields.at(key[:100]))
        require_json(value, fields.at(key[:100]), depth)
    return others


def _kept(fields: Fields, key: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Take out a value to keep it as it is; return None for one that is missing."""
    value = fields.optional(key, kind, what)
    require_json(value, fields.at(key), 3)  # it becomes {"attributes": {"openai": {key: value}}}
    return value


def _thinking(fields: Fields) -> str | None:
    thinking, other = fields.optional_text("reasoning_content"), fields.optional_text("reasoning")
    if thinking and other and thinking != other:
        raise InvalidMessageError("given twice, there is a reasoning_content", fields.at("reasoning"), code="repeated")
    return thinking or other or None


def _joined(texts: Iterable[TextContent]) -> str:
    return "".join(text.text for text in texts)


def _tool_call(fields: Fields) -> tuple[ToolExecutionRequest, dict[str, Any]]:
    refused = {"custom": "a call of a custom tool cannot be kept, only one of a function"}
    fields.choice("type", ["function"], refused)
    fields.leave("index")  # DeepSeek's; they come in order
    id = fields.text("id")
    name, arguments = fields.object("function", lambda function: (function.text("name"), function.text("arguments")))
    return ToolExecutionRequest(id, name, arguments), _others(fields, OF_CALL, 5)


_ROLES: dict[str, Callable[[Fields], ChatMessage]] = {
    "system": _system,
    "developer": _system,
    "user": lambda fields: UserMessage(fields.content(_USER_PARTS), name=fields.optional_text("name")),
    "assistant": _assistant,
    "tool": _tool,
}


def _text(fields: Fields) -> TextContent:
    return TextContent(fields.text("text"))


def _audio(fields: Fields) -> AudioContent:
    format = fields.choice("format", ["wav", "mp3"])
    return AudioContent(base64_data=fields.text("data"), mime_type=f"audio/{format}")


def _file(fields: Fields) -> PdfFileContent:
    fields.refuse("file_id", "a file that OpenAI holds cannot be kept; give its file_data")
    fields.optional_text("filename")
    return openai_pdf_file(fields)


_TEXT_PARTS = {"text": _text}
_ASSISTANT_PARTS: dict[str, Callable[[Fields], TextContent | str]] = {
    "text": _text,
    "refusal": lambda fields: fields.text("refusal"),
}
_USER_PARTS: dict[str, Callable[[Fields], Content]] = {
    "text": _text,
    "image_url": lambda fields: fields.object("image_url", lambda image: openai_image(image.text("url"), image)),
    "input_audio": lambda fields: fields.object("input_audio", _audio),
    "file": lambda fields: fields.object("file", _file),
}
