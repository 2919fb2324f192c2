"""The tokens that an image and a PDF file cost, by the rules that providers publish.

Sources, as of November 2026: https://platform.openai.com/docs/guides/images-vision ("Calculating costs"),
https://platform.claude.com/docs/en/build-with-claude/vision, https://ai.google.dev/gemini-api/docs/tokens and
https://ai.google.dev/gemini-api/docs/media-resolution; of PDF files
https://platform.openai.com/docs/guides/pdf-files and https://platform.claude.com/docs/en/build-with-claude/pdf-support.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from struct import error as StructError
from struct import unpack_from
from typing import TypeAlias

from chatmemory.core.contents import DetailLevel, ImageContent, Media, PdfFileContent

Size: TypeAlias = tuple[int, int]
"""Width and height in pixels."""

UNKNOWN_SIZE = (1024, 1024)
"""The assumed size of an image at a URL, and of one that is not PNG, JPEG, GIF or WebP."""

_MOST_BEFORE_SIZE = 400_000  # characters of Base64; what cameras write before the size of a JPEG is shorter


def image_tokens(content: ImageContent, model: str) -> int:
    """Return the tokens that an image costs a model.

    Args:
        content: the image. The size of Base64 data is read from the data.
        model: the name of the model. Names that begin with ``claude`` and ``gemini`` follow the rules of Anthropic and
            Google; all others follow OpenAI's.
    """
    data = _data_of(content.media)
    size = (image_size(data) if data is not None else None) or UNKNOWN_SIZE
    if model.startswith("claude"):
        return _claude(size, model)
    if model.startswith("gemini"):
        return _gemini(size, model)
    return _openai(size, model, content.detail_level)


_PAGE_SIZE = (1240, 1754)  # A4 with 150 pixels an inch. OpenAI does not say how large its images of pages are
_PAGE_TEXT = 500  # a full page of English
_PAGES = {"claude": 2300, "gemini-1": 258, "gemini-2": 258, "gemini": 560}
"""The tokens of a page by the beginning of a model's name: its text and an image of it, at Gemini the image alone."""


def pdf_tokens(content: PdfFileContent, model: str) -> int:
    """Return the tokens that a PDF file costs a model, see ``image_tokens``. One that is at a URL counts as a page."""
    data = _data_of(content.media)
    page = next((tokens for name, tokens in _PAGES.items() if model.startswith(name)), None)
    if page is None:
        page = _PAGE_TEXT + _openai(_PAGE_SIZE, model, DetailLevel.HIGH)
    return page * (1 if data is None else pdf_pages(data))


def _data_of(media: Media | None) -> str | None:
    """Return the Base64 of media that are here, perhaps as a data URI."""
    if media is None:
        return None
    head, _, data = (media.url or "").partition(";base64,")
    return media.base64_data or (data if head.startswith("data:") else None)


_OLD_CLAUDES = (
    *("claude-2", "claude-3", "claude-haiku-3", "claude-haiku-4", "claude-sonnet-4"),
    *(f"claude-opus-4-{minor}" for minor in (0, 1, 2, 5, 6)),
)


def _claude(size: Size, model: str) -> int:
    """Count one token for each square of 28 pixels. Larger images are scaled down first."""
    edge, most = (1568, 1568) if model.startswith(_OLD_CLAUDES) else (2576, 4784)
    return min(most, _squares(_within(size, edge), 28))


def _gemini(size: Size, model: str) -> int:
    """Count a fixed number from Gemini 3 on; before, 258 tokens for each tile of 768 pixels."""
    if not model.startswith(("gemini-1", "gemini-2")):
        return 1120
    return 258 if max(size) <= 384 else 258 * _squares(size, 768)


@dataclass(frozen=True)
class _Tiles:
    """A base, which is the whole cost of an image with low detail, and a cost for each tile of 512 pixels."""

    base: int
    per_tile: int

    def tokens(self, size: Size, detail: DetailLevel) -> int:
        if detail is DetailLevel.LOW:
            return self.base
        width, height = _within(size, 2048)
        shrunk = min(1.0, 768 / min(width, height))
        return self.base + self.per_tile * _squares((width * shrunk, height * shrunk), 512)


@dataclass(frozen=True)
class _Patches:
    """Some tokens for each square of 32 pixels. An image with more than ``most`` of them is scaled down first."""

    factor: float
    most: int

    most_high: int | None = None
    """The most of an image of high detail, if that is less."""

    def tokens(self, size: Size, detail: DetailLevel) -> int:
        width, height = _within(size, 512) if detail is DetailLevel.LOW else size
        most = self.most_high if self.most_high and detail is DetailLevel.HIGH else self.most
        patches = _squares((width, height), 32)
        if patches > most:
            scale = math.sqrt(most / (width * height))
            wide, high = width * scale, height * scale
            whole = min(max(1, int(wide)) / wide, max(1, int(high)) / high)  # one edge ends with a whole square
            patches = min(most, math.ceil(wide * whole - 1e-6) * math.ceil(high * whole - 1e-6))
        return math.ceil(patches * self.factor)


_OPENAI: dict[str, _Tiles | _Patches] = {
    "gpt-4o-mini": _Tiles(2833, 5667),
    "gpt-4.1-mini": _Patches(1.62, 1536),
    "gpt-4.1-nano": _Patches(2.46, 1536),
    "o4-mini": _Patches(1.72, 1536),
    "gpt-5-mini": _Patches(1.62, 1536),
    "gpt-5-nano": _Patches(2.46, 1536),
    "gpt-5.4": _Patches(1.2, 10_000, 2500),
    "gpt-5.5": _Patches(1.2, 10_000, 2500),
    "gpt-5": _Tiles(70, 140),
    "gpt-6": _Patches(1.2, 12_000, 2500),
    "o1": _Tiles(75, 150),
    "o3": _Tiles(75, 150),
}
"""The rules by prefix of a model's name. The first match applies."""


def _openai(size: Size, model: str, detail: DetailLevel) -> int:
    rule = next((rule for name, rule in _OPENAI.items() if model.startswith(name)), _Tiles(85, 170))
    return rule.tokens(size, detail)


def _within(size: Size, edge: int) -> Size:
    """Return the size of an image that is scaled down so that its longer edge is at most ``edge``."""
    scale = min(1.0, edge / max(size))
    return max(1, int(size[0] * scale)), max(1, int(size[1] * scale))


def _squares(size: tuple[float, float], edge: int) -> int:
    return math.ceil(size[0] / edge) * math.ceil(size[1] / edge)


def image_size(data: str) -> Size | None:
    """Return the size of a PNG, JPEG, GIF or WebP image in Base64, or None."""
    begin = data[:_MOST_BEFORE_SIZE]
    try:
        read = base64.b64decode(begin[: len(begin) // 4 * 4])
        size = next((read_size(read) for magic, read_size in _READERS.items() if read.startswith(magic)), None)
    except (binascii.Error, ValueError, StructError, IndexError):
        return None
    return size if size is not None and min(size) > 0 else None


def _png(data: bytes) -> Size:
    width, height = unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> Size:
    width, height = unpack_from("<HH", data, 6)
    return width, height


def _webp(data: bytes) -> Size | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = unpack_from("<I", data, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg(data: bytes) -> Size:
    at = 2
    while True:
        marker, length = unpack_from(">HH", data, at)
        # The frame's header; the other three of these markers are tables.
        if 0xFFC0 <= marker <= 0xFFCF and marker not in (0xFFC4, 0xFFC8, 0xFFCC):
            height, width = unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length


_READERS: dict[bytes, Callable[[bytes], Size | None]] = {
    b"\x89PNG": _png,
    b"\xff\xd8": _jpeg,
    b"GIF8": _gif,
    b"RIFF": _webp,
}


_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PACKED = re.compile(rb"/ObjStm\b.{0,300}?stream\r?\n", re.DOTALL)

# Files come from outside, and a few bytes may unpack to many. No provider takes more pages.
_MOST_PAGES = 1000
_MOST_PACKED = 10_000
_MOST_UNPACKED = 20_000_000


def pdf_pages(data: str) -> int:
    """Return the number of pages of a PDF file from its Base64, at most 1,000; 1 if none is found."""
    try:
        read = base64.b64decode(data)
    except (binascii.Error, ValueError):
        return 1
    pages, left = _pages(read), _MOST_UNPACKED
    for match in islice(_PACKED.finditer(read), _MOST_PACKED):  # since PDF 1.5
        if left <= 0:
            break
        with suppress(zlib.error):
            objects = zlib.decompressobj().decompress(read[match.end() : match.end() + 200_000], left)
            pages, left = pages + _pages(objects), left - len(objects)
    return min(max(1, pages), _MOST_PAGES)


def _pages(objects: bytes) -> int:
    return sum(1 for _ in _PAGE.finditer(objects))
