"""The writer of the parts of Gemini's contents; see :mod:`chatmemory.formats.gemini`."""

from __future__ import annotations

import base64
import re
from typing import Any

from chatmemory.core.contents import (
    Audio,
    AudioContent,
    Content,
    ImageContent,
    Media,
    PdfFileContent,
    TextContent,
    VideoContent,
)
from chatmemory.core.messages import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.formats import CannotExpressError
from chatmemory.formats.media import data_uri, is_base64
from chatmemory.formats.pairing import arguments_object

__all__ = ["answer_parts", "can_be_fetched", "content_part", "function_response"]

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
        raise CannotExpressError("Gemini needs the name of the tool that is called")
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
    match content:
        case TextContent():
            return {"text": content.text}
        case ImageContent():
            return _media_part(content.image, "an image")
        case AudioContent():
            return _media_part(content.audio, "audio")
        case VideoContent():
            return _media_part(content.video, "a video")
        case PdfFileContent():
            return _media_part(content.pdf_file, "a PDF file")
    raise CannotExpressError(f"Gemini takes no {content.type}")


def _media_part(media: Media | None, what: str) -> dict[str, Any]:
    mime_type, data, url = "", None, ""
    if media is not None:
        mime_type, data, url = media.mime_type or "", media.base64_data, media.url or ""
        if not data and isinstance(media, Audio) and media.binary_data:
            data = base64.b64encode(media.binary_data).decode()
    if not data and url:
        type_in_url, data = data_uri(url)
        mime_type = type_in_url if data else mime_type
    if data:
        if not is_base64(data):
            raise CannotExpressError(f"Gemini takes the data of {what} as Base64 only")
        if not mime_type:
            raise CannotExpressError(f"Gemini needs the MIME type of {what}")
        return {"inlineData": {"mimeType": mime_type, "data": data}}
    if not url:
        raise CannotExpressError(f"Gemini needs the URL or the data of {what}")
    if not can_be_fetched(url):
        raise CannotExpressError(f"Gemini takes {what} from http, https and gs only, but the URL is {url!r:.100}")
    path = re.split("[?#]", url, maxsplit=1)[0]
    mime_type = mime_type or _MIME_TYPES.get(path.rpartition(".")[2].lower(), "")
    if mime_type:
        return {"fileData": {"fileUri": url, "mimeType": mime_type}}
    if what == "a video":  # of YouTube, which have none
        return {"fileData": {"fileUri": url}}
    raise CannotExpressError(f"Gemini needs the MIME type of {what}, and the ending of its URL names none")


def can_be_fetched(url: str) -> bool:
    """Return whether Gemini can fetch a URL."""
    return url.partition("://")[0].lower() in ("http", "https", "gs")
