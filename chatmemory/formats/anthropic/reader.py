"""The strict reader of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain, groupby
from typing import Any, NamedTuple

from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import Content, DetailLevel, ImageContent, PdfFileContent, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps, require_json
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats import CannotExpressError
from chatmemory.formats.anthropic.block_writer import (
    REDACTED_THINKING,
    SCHEMES,
    THINKING_SIGNATURE,
    answer_blocks,
    content_block,
)
from chatmemory.formats.kept_parts import read_system, with_attributes, with_tool_names
from chatmemory.formats.media import IMAGE_TYPES, is_at

ATTRIBUTE = "anthropic"
"""The attribute under which the blocks that messages here cannot express are kept, as ``content``."""

_OF_THE_ANSWER = (
    *("id", "type", "model", "usage", "stop_reason", "stop_sequence", "stop_details"),
    *("container", "context_management", "diagnostics"),
)


def from_anthropic(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from ``{"system": …, "messages": […]}``, a list of messages, or one answer that the SDK dumps.

    ``null`` is the same as a field that is not there. A tool result gets the name of the tool that an earlier message
    calls by its ID.

    Args:
        place: what the data is called in errors, ``body`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].content[0].tool_use_id``.
    """
    if isinstance(data, (list, tuple)):
        return _messages(data, place)
    if not isinstance(data, Mapping):
        raise expected("an object or a list of messages", data, place)
    fields = Fields(data, place)
    at = fields.at
    if "role" in data:
        return fields.build(_message)
    fields.refuse_others("system", "messages")
    if not isinstance(data.get("messages"), (list, tuple)):
        raise expected("a list of messages", data.get("messages"), at("messages"))
    system: list[ChatMessage] = []
    if data.get("system") is not None:
        require_json(data["system"], at("system"))
        text = _system_text(data["system"], at("system"))
        system = [read_system(text, at("system"))] if text else []
    return system + _messages(data["messages"], at("messages"))


def _messages(data: Iterable[Any], place: str) -> list[ChatMessage]:
    read = (Fields(item, f"{place}[{index}]").build(_message) for index, item in enumerate(data))
    return list(with_tool_names(chain.from_iterable(read)))


def _message(fields: Fields) -> list[ChatMessage]:
    role = fields.choice("role", ("user", "assistant", "system"))
    place = fields.at("content")
    content = read_content(fields)
    if role == "system":
        return [read_system(_system_text(content, place), place)]
    if role == "user":
        return _user(content, place)
    fields.leave(*_OF_THE_ANSWER)
    return [_kept_beside(read_answer(content, place), clean_blocks(content))]


def _system_text(content: Any, place: str) -> str:
    if not isinstance(content, (str, list, tuple)):
        raise expected("a string or a list of blocks", content, place)
    return "\n\n".join(part.text for part in read_parts(content, place, _SYSTEM_BLOCKS))


def _user(content: Any, place: str) -> list[ChatMessage]:
    if isinstance(content, str):
        return [UserMessage(content)]
    if not content:
        raise InvalidMessageError("expected at least one block, got none", place, code="empty")
    blocks = list(enumerate(content))
    messages: list[ChatMessage] = []
    for is_result, group in groupby(blocks, lambda item: _type(item[1]) == "tool_result"):
        some = list(group)
        if is_result:
            messages += [Fields(block, f"{place}[{index}]").build(read_tool_result) for index, block in some]
        else:
            contents = [content for index, block in some for content in _user_part(block, f"{place}[{index}]")]
            kept = clean_contents([block for _, block in some])
            try:
                same = kept == [content_block(content) for content in contents]
            except CannotExpressError as error:  # data that are no Base64
                raise InvalidMessageError(error, place) from error
            messages.append(UserMessage(contents=contents, attributes=None if same else {ATTRIBUTE: {"content": kept}}))
    return messages


def read_contents(blocks: list[Any]) -> list[Content]:
    """Read a user's blocks, which are no tool results."""
    return [content for index, block in enumerate(blocks) for content in _user_part(block, f"[{index}]")]


def clean_contents(blocks: list[Any]) -> list[dict[str, Any]]:
    """Return a user's blocks without fields that say nothing: only a model cites."""
    return [
        {key: value for key, value in block.items() if (block.get("type"), key) != ("text", "citations")}
        for block in clean_blocks(blocks)
    ]


def _user_part(block: Any, place: str) -> list[Content]:
    contents: list[Content] = read_parts([block], place, _USER_BLOCKS, at=place)[0]
    return contents


def read_answer(content: Any, place: str = "") -> AiMessage:
    """Read the blocks of an answer, without what a message here has no place for."""
    parts = read_parts(content, place, _ANSWER_BLOCKS)
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    thoughts = [part for part in parts if isinstance(part, Thought)]
    signature = "\n".join(thought.signature for thought in thoughts)
    redacted = [part.data for part in parts if isinstance(part, Redacted)]
    attributes: dict[str, Any] = {}
    if signature:
        attributes[THINKING_SIGNATURE] = signature
    if redacted:
        attributes[REDACTED_THINKING] = redacted
    return AiMessage(
        "".join(texts) if texts else None,
        [part for part in parts if isinstance(part, ToolExecutionRequest)],
        thinking="\n".join(thought.thinking for thought in thoughts) if thoughts else None,
        attributes=attributes,
    )


def _kept_beside(answer: AiMessage, blocks: list[dict[str, Any]]) -> AiMessage:
    """Return the answer, with its blocks kept aside if writing it would not make them again."""
    with suppress(CannotExpressError):  # the name of a tool that is empty
        if answer_blocks(answer) == blocks:
            return answer
    return with_attributes(answer, {**answer.attributes, ATTRIBUTE: {"content": blocks}})


def clean_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the blocks without fields that say nothing."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {
            key: value
            for key, value in block.items()
            if value is not None and key != "cache_control" and (key, value) != ("caller", {"type": "direct"})
        }
        for block in content
    ]


def _type(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


_FILES = {
    "file": "a file that Anthropic holds cannot be kept; give its data",
    "content": "a document of blocks cannot be kept; give them as blocks of the message",
}
_REFUSED = {
    "search_result": "search results cannot be kept; give them as text",
    "tool_reference": "references to tools cannot be kept; leave them out",
    "browser_state": "the state of a browser cannot be kept; give it as text",
}


class Thought(NamedTuple):
    thinking: str
    signature: str


class Redacted(NamedTuple):
    data: str


def read_content(fields: Fields) -> Any:
    """Take out ``content``, a text or a list of blocks that can be kept in attributes."""
    content = fields.value("content", (str, list, tuple), "a string or a list of blocks")
    require_json(content, fields.at("content"), 3)  # it becomes {"attributes": {"anthropic": {"content": content}}}
    return content


def read_parts(content: Any, place: str, readers: Mapping[str, Callable[[Fields], Any]], at: str = "") -> list[Any]:
    """Read each block. Of a single one, ``at`` is the place itself."""
    if isinstance(content, str):
        return [TextContent(content)]

    def read(fields: Fields) -> Any:
        fields.leave("cache_control")
        return readers[fields.choice("type", readers, _REFUSED)](fields)

    return [Fields(block, at or f"{place}[{index}]").build(read) for index, block in enumerate(content)]


def _text(fields: Fields) -> TextContent:
    fields.optional("citations", (list, tuple), "a list")
    return TextContent(fields.text("text"))


def _tool_use(fields: Fields) -> ToolExecutionRequest:
    fields.leave("caller", "toolset_name")
    return ToolExecutionRequest(
        fields.text("id"), fields.text("name"), dumps(fields.value("input", Mapping, "an object"))
    )


def _compaction(fields: Fields) -> None:
    fields.optional_text("content")
    fields.optional_text("signature")
    fields.leave_all()


def read_tool_result(fields: Fields) -> ToolExecutionResultMessage:
    """Read a tool result, whose tool has no name in it."""
    fields.choice("type", ["tool_result"])
    fields.leave("cache_control")
    id = fields.text("tool_use_id")
    is_error = fields.flag("is_error")
    place = fields.at("content")
    content = read_content(fields) if fields.has("content") else ""
    contents = read_parts(content, place, _RESULT_BLOCKS)
    return ToolExecutionResultMessage(id, contents=contents or [TextContent("")], is_error=is_error)


def _image(fields: Fields) -> ImageContent:
    return fields.object("source", _image_source)


def _user_image(fields: Fields) -> list[Content]:
    fields.optional_object("transformations", _transformations)
    return [_image(fields)]


def _transformations(fields: Fields) -> None:
    if fields.has("oversized_image"):
        fields.choice("oversized_image", ("downsize", "error"))


def _image_source(fields: Fields) -> ImageContent:
    # Anthropic does not say how closely to look.
    if fields.choice("type", ("base64", "url"), _FILES) == "url":
        return ImageContent(_url(fields), detail_level=DetailLevel.AUTO)
    media_type = fields.choice("media_type", IMAGE_TYPES)
    return ImageContent(base64_data=fields.text("data"), mime_type=media_type, detail_level=DetailLevel.AUTO)


def _url(fields: Fields) -> str:
    url = fields.text("url")
    if not is_at(url, SCHEMES):
        raise InvalidMessageError("expected a URL of https", fields.at("url"))
    return url


def _document(fields: Fields) -> Content:
    return fields.object("source", _document_source)


def _user_document(fields: Fields) -> list[Content]:
    # The model reads them, so they are part of what the user says.
    said = [fields.optional_text(key) for key in ("title", "context")]
    fields.optional_object("citations", lambda citations: citations.flag("enabled"))
    return [*(TextContent(text) for text in said if text and not is_blank(text)), _document(fields)]


def _document_source(fields: Fields) -> Content:
    match fields.choice("type", ("base64", "url", "text"), _FILES):
        case "url":
            return PdfFileContent(_url(fields))
        case "text":
            fields.choice("media_type", ["text/plain"])
            return TextContent(fields.text("data"))
    fields.choice("media_type", ["application/pdf"])
    return PdfFileContent(base64_data=fields.text("data"))


_SYSTEM_BLOCKS: dict[str, Callable[[Fields], Any]] = {"text": _text}
_USER_BLOCKS: dict[str, Callable[[Fields], list[Content]]] = {
    "text": lambda fields: [_text(fields)],
    "image": _user_image,
    "document": _user_document,
}
_RESULT_BLOCKS: dict[str, Callable[[Fields], Any]] = {"text": _text, "image": _image, "document": _document}
# What ran at Anthropic needs no answer from here, and is of use only unchanged.
_RAN = (
    *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
    *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result"),
    *("advisor_tool_result", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "container_upload"),
)
_ANSWER_BLOCKS: dict[str, Callable[[Fields], Any]] = {
    "text": _text,
    "thinking": lambda fields: Thought(fields.text("thinking"), fields.text("signature")),
    "redacted_thinking": lambda fields: Redacted(fields.text("data")),
    "tool_use": _tool_use,
    **dict.fromkeys(_RAN, Fields.leave_all),
    "compaction": _compaction,
}
