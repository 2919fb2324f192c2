"""The writer of the parts of OpenAI's messages; see :mod:`chatmemory.formats.openai`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from chatmemory.core.contents import (
    Audio,
    AudioContent,
    Content,
    DetailLevel,
    ImageContent,
    PdfFileContent,
    TextContent,
)
from chatmemory.formats import CannotExpressError
from chatmemory.formats.media import (
    PDF_TYPES,
    Data,
    MediaRule,
    data_of,
    data_uri,
    openai_image_url,
    require_base64,
    sendable,
)

__all__ = ["content_part"]

_DETAILS = {
    DetailLevel.LOW: "low",
    DetailLevel.MEDIUM: "auto",
    DetailLevel.HIGH: "high",
    DetailLevel.ULTRA_HIGH: "high",
    DetailLevel.AUTO: "auto",
}

_PDF_FILES = MediaRule(api="OpenAI", kind="a PDF file", types=PDF_TYPES, schemes=(), data_first=True)

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}


def content_part(content: Content, *, record: bool) -> dict[str, Any]:
    """Return the part for one content of a user message.

    For a record of what was said, images may be of any kind, and data may be anything.
    """
    match content:
        case TextContent():
            return {"type": "text", "text": content.text}
        case ImageContent():
            url = openai_image_url(content, record=record)
            return {"type": "image_url", "image_url": {"url": url, "detail": _DETAILS[content.detail_level]}}
        case AudioContent():
            return {"type": "input_audio", "input_audio": _input_audio(content.audio or Audio(), record)}
        case PdfFileContent():
            return {"type": "file", "file": _file(content, record)}
    raise CannotExpressError("%(api)s takes no %(content)s", api="OpenAI", content=content.type.value)


def _input_audio(audio: Audio, record: bool) -> dict[str, Any]:
    mime_type, data = data_of(audio) or data_uri(audio.url or "")
    if not data:
        raise CannotExpressError("%(api)s needs the data of %(kind)s; a URL is not enough", api="OpenAI", kind="audio")
    format = _AUDIO_FORMATS.get(mime_type.lower())
    if format is None:
        raise CannotExpressError(
            "OpenAI takes audio/wav and audio/mp3, but the MIME type is %(mime_type)s",
            mime_type=repr(mime_type or None)[:100],
        )
    if not record:
        require_base64(data, "OpenAI", "audio")
    return {"data": data, "format": format}


def _file(content: PdfFileContent, record: bool) -> dict[str, Any]:
    rule = replace(_PDF_FILES, base64_only=not record)
    found = cast(Data, sendable(content.pdf_file, rule))  # the rule has no addresses
    # OpenAI refuses a file without a name.
    return {"file_data": f"data:application/pdf;base64,{found.base64}", "filename": "file.pdf"}
