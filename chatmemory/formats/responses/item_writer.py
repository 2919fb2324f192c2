"""The writer of the items of OpenAI's Responses; see :mod:`chatmemory.formats.responses`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from chatmemory.core.contents import Content, DetailLevel, ImageContent, PdfFileContent, TextContent
from chatmemory.core.messages import AiMessage
from chatmemory.formats import CannotExpressError
from chatmemory.formats.media import OPENAI_DETAILS, PDF_TYPES, MediaRule, openai_image_url, sendable
from chatmemory.formats.pairing import arguments_text

_DETAILS = {**OPENAI_DETAILS, DetailLevel.ULTRA_HIGH: "original"}


_PDF_FILES = MediaRule(api="OpenAI", kind="a PDF file", types=PDF_TYPES, data_first=True)


def answer_items(message: AiMessage, *, record: bool = False) -> list[dict[str, Any]]:
    """Return the items of an answer: its text, and its calls."""
    items: list[dict[str, Any]] = [{"role": "assistant", "content": message.text}] if message.text else []
    for request in message.tool_execution_requests:
        if request.name is None:
            raise CannotExpressError("%(api)s needs the name of the tool that is called", api="OpenAI")
        arguments = arguments_text(request.arguments, keep_blank=record)
        items.append({"type": "function_call", "call_id": request.id, "name": request.name, "arguments": arguments})
    return items


def text_or_parts(contents: tuple[Content, ...], *, record: bool = False) -> str | list[dict[str, Any]]:
    """Return the text of a single content that is one, else the parts."""
    if len(contents) == 1 and isinstance(contents[0], TextContent):
        return contents[0].text
    return content_parts(contents, record=record)


def content_parts(contents: Iterable[Content], *, record: bool = False) -> list[dict[str, Any]]:
    """Return the part for each content; see :func:`chatmemory.formats.openai.writer.content_part`."""
    return [_part(content, record) for content in contents]


def _part(content: Content, record: bool) -> dict[str, Any]:
    match content:
        case TextContent():
            return {"type": "input_text", "text": content.text}
        case ImageContent():
            return {
                "type": "input_image",
                "image_url": openai_image_url(content, record=record),
                "detail": _DETAILS[content.detail_level],
            }
        case PdfFileContent():
            return {"type": "input_file", **_file(content, record)}
    raise CannotExpressError("OpenAI's Responses take no %(content)s", content=content.type.value)


def _file(content: PdfFileContent, record: bool) -> dict[str, str]:
    found = sendable(content.pdf_file, replace(_PDF_FILES, base64_only=not record))
    if isinstance(found, str):
        return {"file_url": found}
    # OpenAI refuses data without a name.
    return {"filename": "file.pdf", "file_data": f"data:application/pdf;base64,{found.base64}"}
