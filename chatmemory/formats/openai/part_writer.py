"""The writer of the parts of OpenAI's messages; see :mod:`chatmemory.formats.openai`."""

from __future__ import annotations

import base64
from typing import Any

from chatmemory.core.contents import AudioContent, Content, DetailLevel, ImageContent, PdfFileContent, TextContent
from chatmemory.formats import CannotExpressError
from chatmemory.formats.media import openai_image_url

__all__ = ["content_part"]

_DETAILS = {
    DetailLevel.LOW: "low",
    DetailLevel.MEDIUM: "auto",
    DetailLevel.HIGH: "high",
    DetailLevel.ULTRA_HIGH: "high",
    DetailLevel.AUTO: "auto",
}

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}


def content_part(content: Content) -> dict[str, Any]:
    """Return the part for one content of a user message."""
    match content:
        case TextContent():
            return {"type": "text", "text": content.text}
        case ImageContent():
            return {
                "type": "image_url",
                "image_url": {"url": openai_image_url(content), "detail": _DETAILS[content.detail_level]},
            }
        case AudioContent():
            return {"type": "input_audio", "input_audio": _input_audio(content)}
        case PdfFileContent():
            return {"type": "file", "file": _file(content)}
    raise CannotExpressError(f"OpenAI takes no {content.type}")


def _input_audio(content: AudioContent) -> dict[str, Any]:
    audio = content.audio
    if audio is None or not (audio.base64_data or audio.binary_data):
        raise CannotExpressError("OpenAI needs the data of audio; a URL is not enough")
    format = _AUDIO_FORMATS.get((audio.mime_type or "").lower())
    if format is None:
        raise CannotExpressError(f"OpenAI takes audio/wav and audio/mp3, but the MIME type is {audio.mime_type!r:.100}")
    return {"data": audio.base64_data or base64.b64encode(audio.binary_data or b"").decode(), "format": format}


def _file(content: PdfFileContent) -> dict[str, Any]:
    file = content.pdf_file
    if file is None or not file.base64_data:
        raise CannotExpressError("OpenAI needs the data of a PDF file; a URL is not enough")
    # OpenAI refuses a file without a name.
    return {"file_data": f"data:application/pdf;base64,{file.base64_data}", "filename": "file.pdf"}
