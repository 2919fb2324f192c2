"""The writer of the content blocks of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from typing import Any

from chatmemory.core.contents import Content, ImageContent, Media, PdfFileContent, TextContent
from chatmemory.core.messages import AiMessage, ToolExecutionRequest
from chatmemory.formats import CannotExpressError
from chatmemory.formats.media import IMAGE_TYPES, PDF_TYPES, MediaRule, sendable
from chatmemory.formats.pairing import arguments_object

THINKING_SIGNATURE = "thinking_signature"
"""The attribute with the signature of an answer's thinking, as LangChain4j's Anthropic module names it."""

REDACTED_THINKING = "redacted_thinking"
"""The attribute with a list of the data of redacted thinking, as LangChain4j's Anthropic module names it."""

SCHEMES = ("https",)
"""The schemes of the addresses that Anthropic fetches."""

_IMAGES = MediaRule(api="Anthropic", kind="an image", types=IMAGE_TYPES, schemes=SCHEMES)
_PDF_FILES = MediaRule(api="Anthropic", kind="a PDF file", types=PDF_TYPES, schemes=SCHEMES, data_first=True)


def answer_blocks(message: AiMessage) -> list[dict[str, Any]]:
    """Return the blocks of an answer, in LangChain4j's order: thinking, redacted thinking, text, tool calls."""
    blocks: list[dict[str, Any]] = []
    signature = message.attributes.get(THINKING_SIGNATURE)
    if message.thinking is not None and isinstance(signature, str):
        blocks.append({"type": "thinking", "thinking": message.thinking, "signature": signature})
    redacted = message.attributes.get(REDACTED_THINKING)
    if isinstance(redacted, (list, tuple)):
        blocks += [{"type": "redacted_thinking", "data": data} for data in redacted if isinstance(data, str)]
    if message.text is not None:
        blocks.append({"type": "text", "text": message.text})
    return blocks + [_tool_use(request) for request in message.tool_execution_requests]


def is_sendable(block: dict[str, Any]) -> bool:
    """Return whether Anthropic takes a block of an answer or of a user."""
    match block["type"]:
        case "text":
            return bool(block["text"].strip())
        case "thinking":
            # LangChain4j joins the signatures of several blocks with line breaks, and Anthropic would refuse them so.
            return bool(block["signature"]) and "\n" not in block["signature"]
        case "redacted_thinking":
            return bool(block["data"])
        case "compaction":
            return block.get("content") != ""
    return True


def is_compaction(block: dict[str, Any]) -> bool:
    """Return whether a block is a summary, or the place of one that failed."""
    return bool(block["type"] == "compaction")


def is_summary(block: dict[str, Any]) -> bool:
    """Return whether a block stands for all that was said before it."""
    return is_compaction(block) and bool(block.get("content"))


def is_thinking(block: dict[str, Any]) -> bool:
    """Return whether a block is thinking, in clear or redacted."""
    return block["type"] in ("thinking", "redacted_thinking")


def _tool_use(request: ToolExecutionRequest) -> dict[str, Any]:
    if not request.name:
        raise CannotExpressError("%(api)s needs the name of the tool that is called", api="Anthropic")
    return {
        "type": "tool_use",
        "id": request.id,
        "name": request.name,
        "input": arguments_object(request.arguments),
    }


def content_block(content: Content) -> dict[str, Any]:
    """Return the block for one content of a user message or a tool result."""
    match content:
        case TextContent():
            return {"type": "text", "text": content.text}
        case ImageContent():
            return {"type": "image", "source": _source(content.image, _IMAGES)}
        case PdfFileContent():
            return {"type": "document", "source": _source(content.pdf_file, _PDF_FILES)}
    raise CannotExpressError("%(api)s takes no %(content)s", api="Anthropic", content=content.type.value)


def _source(media: Media | None, rule: MediaRule) -> dict[str, Any]:
    found = sendable(media, rule)
    if isinstance(found, str):
        return {"type": "url", "url": found}
    return {"type": "base64", "media_type": found.mime_type, "data": found.base64}
