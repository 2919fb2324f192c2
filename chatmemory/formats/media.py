"""Images and files, as several formats of models' APIs have them."""

from __future__ import annotations

import re

from chatmemory.core.contents import DetailLevel, ImageContent, PdfFileContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.serialization.fields import Fields
from chatmemory.formats import CannotExpressError

__all__ = ["data_uri", "is_base64", "openai_image", "openai_image_url", "openai_pdf_file"]

_BASE64 = re.compile("[A-Za-z0-9+/_-]*={0,2}")

_DETAIL_LEVELS = {
    "auto": DetailLevel.AUTO,
    "low": DetailLevel.LOW,
    "high": DetailLevel.HIGH,
    "original": DetailLevel.ULTRA_HIGH,
}


def data_uri(uri: str) -> tuple[str, str | None]:
    """Return the MIME type and the Base64 of a data URI; an empty type and None for any other URI."""
    head, comma, data = uri.partition(",")
    if comma and head[:5].lower() == "data:" and head[-7:].lower() == ";base64":
        return head[5:-7], data
    return "", None


def is_base64(data: str) -> bool:
    """Return whether ``data`` is Base64 of either alphabet."""
    return len(data) % 4 == 0 and _BASE64.fullmatch(data) is not None


def openai_image_url(content: ImageContent) -> str:
    """Return the URL of an image, which for one that is here as data is a data URI."""
    image = content.image
    if image.url:
        return image.url
    if not image.base64_data:
        raise CannotExpressError("OpenAI needs the URL or the data of an image")
    if not image.mime_type:
        raise CannotExpressError("OpenAI needs the MIME type of an image that is given as data")
    return f"data:{image.mime_type};base64,{image.base64_data}"


def openai_image(url: str, fields: Fields) -> ImageContent:
    """Return the image at ``url``, with the ``detail`` of ``fields``."""
    # OpenAI's default, not that of ImageContent: it is how closely the model has looked.
    detail = _DETAIL_LEVELS[fields.choice("detail", _DETAIL_LEVELS) if fields.has("detail") else "auto"]
    mime_type, data = data_uri(url)
    if data is None:
        return ImageContent(url, detail_level=detail)
    return ImageContent(base64_data=data, mime_type=mime_type, detail_level=detail)


def openai_pdf_file(fields: Fields) -> PdfFileContent:
    """Return the PDF file that is the ``file_data`` of ``fields``."""
    mime_type, data = data_uri(fields.text("file_data"))
    if data is None or mime_type.lower() != "application/pdf":
        raise InvalidMessageError("expected data:application/pdf;base64,…", fields.at("file_data"))
    return PdfFileContent(base64_data=data)
