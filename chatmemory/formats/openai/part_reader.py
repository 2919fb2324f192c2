"""The reader of the parts of OpenAI's messages; see :mod:`chatmemory.formats.openai`."""

from __future__ import annotations

from collections.abc import Callable

from chatmemory.core.contents import AudioContent, Content, ImageContent, PdfFileContent, TextContent
from chatmemory.core.serialization.fields import Fields
from chatmemory.formats.media import openai_image, openai_pdf_file

__all__ = ["ASSISTANT_PARTS", "TEXT_PARTS", "USER_PARTS"]


def _text(fields: Fields) -> TextContent:
    return TextContent(fields.text("text"))


def _refusal(fields: Fields) -> str:
    return fields.text("refusal")


def _image(fields: Fields) -> ImageContent:
    return fields.object("image_url", _image_url)


def _image_url(fields: Fields) -> ImageContent:
    return openai_image(fields.text("url"), fields)


def _audio(fields: Fields) -> AudioContent:
    return fields.object("input_audio", _input_audio)


def _input_audio(fields: Fields) -> AudioContent:
    format = fields.choice("format", ["wav", "mp3"])
    return AudioContent(base64_data=fields.text("data"), mime_type=f"audio/{format}")


def _file(fields: Fields) -> PdfFileContent:
    return fields.object("file", _file_file)


def _file_file(fields: Fields) -> PdfFileContent:
    fields.refuse("file_id", "a file that OpenAI holds cannot be kept; give its file_data")
    fields.optional_text("filename")
    return openai_pdf_file(fields)


TEXT_PARTS = {"text": _text}
ASSISTANT_PARTS: dict[str, Callable[[Fields], TextContent | str]] = {"text": _text, "refusal": _refusal}
USER_PARTS: dict[str, Callable[[Fields], Content]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
}
