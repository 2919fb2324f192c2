"""The writer of the parts of Gemini's contents; see :mod:`chatmemory.formats.gemini`."""

from __future__ import annotations

import re
from typing import Any

from chatmemory.core.contents import Content, ContentType, TextContent
from chatmemory.core.messages import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.formats import CannotExpressError
from chatmemory.formats.media import PDF_TYPES, WEB, MediaRule, sendable
from chatmemory.formats.pairing import arguments_object

SCHEMES = (*WEB, "gs")
"""The schemes of the addresses that Gemini fetches."""


def _rule(kind: str, *types: str) -> MediaRule:
    return MediaRule(api="Gemini", kind=kind, types=types, schemes=SCHEMES, data_first=True)


_RULES = {
    ContentType.IMAGE: _rule("an image", "image/*"),
    ContentType.AUDIO: _rule("audio", "audio/*"),
    ContentType.VIDEO: _rule("a video", "video/*"),
    ContentType.PDF: _rule("a PDF file", *PDF_TYPES),
}

# By what the path of a URL ends with. A fixed list, so that the same memory is written the same everywhere.
_MIME_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "gif": "image/gif",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    "aiff": "audio/aiff",
    "aac": "audio/aac",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mov": "video/mov",
    "webm": "video/webm",
    "pdf": "application/pdf",
}


def answer_parts(message: AiMessage) -> list[dict[str, Any]]:
    """Return the parts of an answer: its text, and its calls."""
    parts: list[dict[str, Any]] = [] if message.text is None else [{"text": message.text}]
    return parts + [{"functionCall": _function_call(request)} for request in message.tool_execution_requests]


def _function_call(request: ToolExecutionRequest) -> dict[str, Any]:
    if not request.name:
        raise CannotExpressError("%(api)s needs the name of the tool that is called", api="Gemini")
    id = {"id": request.id} if request.id else {}
    return id | {"name": request.name, "args": arguments_object(request.arguments)}


def function_response(message: ToolExecutionResultMessage) -> dict[str, Any]:
    """Return a response without its ID and name: ``output`` or ``error`` with the texts, ``parts`` with the media."""
    texts = [content.text for content in message.contents if isinstance(content, TextContent)]
    media = [content_part(content) for content in message.contents if not isinstance(content, TextContent)]
    said: dict[str, Any] = {"error" if message.is_error else "output": texts[0] if len(texts) == 1 else texts}
    return {"response": said} | ({"parts": media} if media else {})


def content_part(content: Content) -> dict[str, Any]:
    """Return the part for one content of a user message or a tool result."""
    if isinstance(content, TextContent):
        return {"text": content.text}
    media, rule = content.media, _RULES[content.type]
    found = sendable(media, rule)
    if not isinstance(found, str):
        return {"inlineData": {"mimeType": found.mime_type, "data": found.base64}}
    given = media.mime_type if media is not None else None
    mime_type = given or _MIME_TYPES.get(re.split("[?#]", found, maxsplit=1)[0].rpartition(".")[2].lower())
    if mime_type:
        rule.require_type(mime_type)
        return {"fileData": {"fileUri": found, "mimeType": mime_type}}
    if content.type is ContentType.VIDEO:  # of YouTube, which have none
        return {"fileData": {"fileUri": found}}
    raise CannotExpressError(
        "%(api)s needs the MIME type of %(kind)s, and the ending of its URL names none", api=rule.api, kind=rule.kind
    )
