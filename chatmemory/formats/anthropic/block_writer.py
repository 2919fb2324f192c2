"""The writer of the content blocks of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from typing import Any

from chatmemory.core.contents import Content, ImageContent, PdfFileContent, TextContent
from chatmemory.core.messages import AiMessage, ToolExecutionRequest
from chatmemory.formats import CannotExpressError
from chatmemory.formats.media import data_uri
from chatmemory.formats.pairing import arguments_object

__all__ = ["IMAGE_TYPES", "REDACTED_THINKING", "THINKING_SIGNATURE", "answer_blocks", "content_block", "is_on_the_web"]

THINKING_SIGNATURE = "thinking_signature"
"""The attribute with the signature of an answer's thinking, as LangChain4j's Anthropic module names it."""

REDACTED_THINKING = "redacted_thinking"
"""The attribute with a list of the data of redacted thinking, as LangChain4j's Anthropic module names it."""

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The MIME types of images that Anthropic takes as data."""


def answer_blocks(message: AiMessage) -> list[dict[str, Any]]:
    """Return the blocks of an answer, in LangChain4j's order: thinking, redacted thinking, text, tool calls."""
    blocks: list[dict[str, Any]] = []
    signature = message.attributes.get(THINKING_SIGNATURE)
    # LangChain4j joins the signatures of several blocks with line breaks, and Anthropic would refuse them so.
    if message.thinking is not None and isinstance(signature, str) and signature and "\n" not in signature:
        blocks.append({"type": "thinking", "thinking": message.thinking, "signature": signature})
    redacted = message.attributes.get(REDACTED_THINKING)
    if isinstance(redacted, (list, tuple)):
        blocks += [{"type": "redacted_thinking", "data": data} for data in redacted if isinstance(data, str) and data]
    if message.text is not None:
        blocks.append({"type": "text", "text": message.text})
    return blocks + [_tool_use(request) for request in message.tool_execution_requests]


def _tool_use(request: ToolExecutionRequest) -> dict[str, Any]:
    if not request.name:
        raise CannotExpressError("Anthropic needs the name of the tool that is called")
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
            return {"type": "image", "source": _image_source(content)}
        case PdfFileContent():
            return {"type": "document", "source": _pdf_source(content)}
    raise CannotExpressError(f"Anthropic takes no {content.type}")


def _image_source(content: ImageContent) -> dict[str, Any]:
    image = content.image
    mime_type, data = image.mime_type or "", image.base64_data
    if image.url:
        mime_type, data = data_uri(image.url)
        if data is None:
            return _url_source(image.url, "an image")
    if not data:
        raise CannotExpressError("Anthropic needs the URL or the data of an image")
    mime_type = mime_type.lower()
    mime_type = "image/jpeg" if mime_type == "image/jpg" else mime_type
    if mime_type not in IMAGE_TYPES:
        raise CannotExpressError(
            f"Anthropic takes images of {', '.join(IMAGE_TYPES)}, but the MIME type is {mime_type!r:.100}"
        )
    return {"type": "base64", "media_type": mime_type, "data": data}


def _pdf_source(content: PdfFileContent) -> dict[str, Any]:
    file = content.pdf_file
    if file is None or not (file.base64_data or file.url):
        raise CannotExpressError("Anthropic needs the URL or the data of a PDF file")
    if file.base64_data:
        return {"type": "base64", "media_type": "application/pdf", "data": file.base64_data}
    mime_type, data = data_uri(file.url or "")
    if data and mime_type.lower() == "application/pdf":
        return {"type": "base64", "media_type": "application/pdf", "data": data}
    return _url_source(file.url or "", "a PDF file")


def _url_source(url: str, what: str) -> dict[str, Any]:
    if not is_on_the_web(url):
        raise CannotExpressError(f"Anthropic takes {what} from http and https only, but the URL is {url!r:.100}")
    return {"type": "url", "url": url}


def is_on_the_web(url: str) -> bool:
    """Return whether Anthropic can fetch a URL."""
    return url.partition("://")[0].lower() in ("http", "https")
