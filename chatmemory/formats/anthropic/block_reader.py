"""The reader of the content blocks of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import Content, DetailLevel, ImageContent, PdfFileContent, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.core.serialization.fields import Fields
from chatmemory.core.serialization.storable import require_json
from chatmemory.formats.anthropic.block_writer import SCHEMES
from chatmemory.formats.media import IMAGE_TYPES, is_at

__all__ = [
    "ANSWER_BLOCKS",
    "SYSTEM_BLOCKS",
    "USER_BLOCKS",
    "Redacted",
    "Thought",
    "read_content",
    "read_parts",
    "read_tool_result",
]

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
    if fields.has("citations"):
        fields.value("citations", (list, tuple), "a list")
    return TextContent(fields.text("text"))


def _thinking(fields: Fields) -> Thought:
    return Thought(fields.text("thinking"), fields.text("signature"))


def _redacted(fields: Fields) -> Redacted:
    return Redacted(fields.text("data"))


def _tool_use(fields: Fields) -> ToolExecutionRequest:
    fields.leave("caller", "toolset_name")
    return ToolExecutionRequest(
        fields.text("id"), fields.text("name"), dumps(fields.value("input", Mapping, "an object"))
    )


def _compaction(fields: Fields) -> None:
    fields.optional_text("content")
    fields.optional_text("signature")
    fields.leave_all()


def _whole(fields: Fields) -> None:
    fields.leave_all()


def read_tool_result(fields: Fields) -> ToolExecutionResultMessage:
    """Read a tool result, whose tool has no name in it."""
    fields.choice("type", ["tool_result"])
    fields.leave("cache_control")
    id = fields.text("tool_use_id")
    is_error = fields.value("is_error", bool, "true or false") if fields.has("is_error") else None
    place = fields.at("content")
    content = read_content(fields) if fields.has("content") else ""
    contents = read_parts(content, place, _RESULT_BLOCKS)
    return ToolExecutionResultMessage(id, contents=contents or [TextContent("")], is_error=is_error)


def _image(fields: Fields) -> ImageContent:
    return fields.object("source", _image_source)


def _user_text(fields: Fields) -> list[Content]:
    return [_text(fields)]


def _user_image(fields: Fields) -> list[Content]:
    if fields.has("transformations"):
        fields.object("transformations", _transformations)
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
    if fields.has("citations"):
        fields.object("citations", _citations)
    return [*(TextContent(text) for text in said if text and not is_blank(text)), _document(fields)]


def _citations(fields: Fields) -> None:
    if fields.has("enabled"):
        fields.value("enabled", bool, "true or false")


def _document_source(fields: Fields) -> Content:
    match fields.choice("type", ("base64", "url", "text"), _FILES):
        case "url":
            return PdfFileContent(_url(fields))
        case "text":
            fields.choice("media_type", ["text/plain"])
            return TextContent(fields.text("data"))
    fields.choice("media_type", ["application/pdf"])
    return PdfFileContent(base64_data=fields.text("data"))


SYSTEM_BLOCKS: dict[str, Callable[[Fields], Any]] = {"text": _text}
USER_BLOCKS: dict[str, Callable[[Fields], list[Content]]] = {
    "text": _user_text,
    "image": _user_image,
    "document": _user_document,
}
_RESULT_BLOCKS: dict[str, Callable[[Fields], Any]] = {"text": _text, "image": _image, "document": _document}
ANSWER_BLOCKS: dict[str, Callable[[Fields], Any]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
    # What ran at Anthropic needs no answer from here, and is of use only unchanged.
    "server_tool_use": _whole,
    "web_search_tool_result": _whole,
    "web_fetch_tool_result": _whole,
    "code_execution_tool_result": _whole,
    "bash_code_execution_tool_result": _whole,
    "text_editor_code_execution_tool_result": _whole,
    "tool_search_tool_result": _whole,
    "advisor_tool_result": _whole,
    "mcp_tool_use": _whole,
    "mcp_tool_result": _whole,
    "mcp_tool_listing": _whole,
    "container_upload": _whole,
    "compaction": _compaction,
}
