"""Images, PDF files and encrypted texts of known sizes, and how the stand-ins of providers read them."""

from __future__ import annotations

import base64
import struct
import zlib
from itertools import cycle

__all__ = ["pdf", "pdf_size", "png", "png_size", "seal", "unseal"]

_KEY = bytes(index * 89 % 251 for index in range(64))
_HEADER = bytes(24)


def seal(text: str) -> str:
    """Return a text as a provider encrypts it: Base64 of as many bytes, and of a header."""
    return base64.b64encode(_HEADER + _mixed(text.encode())).decode()


def unseal(sealed: str) -> str:
    """Return the text that is in what ``seal`` returned."""
    return _mixed(base64.b64decode(sealed)[len(_HEADER) :]).decode()


def _mixed(data: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(data, cycle(_KEY), strict=False))


def png(width: int, height: int) -> str:
    """Return the Base64 of the beginning of an image, which says its size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk + bytes(3000)).decode()


def png_size(data: str) -> tuple[int, int]:
    """Return the width and the height of an image that ``png`` returned."""
    width, height = struct.unpack_from(">II", base64.b64decode(data), 16)
    return width, height


def pdf(pages: int, text: int, *, packed: bool) -> str:
    """Return the Base64 of a PDF file.

    Args:
        pages: the number of pages.
        text: the tokens of the text on all pages together, which the file only says that it has.
        packed: whether its objects are compressed, as programs write them since PDF 1.5.
    """
    kids = " ".join(f"{number + 3} 0 R" for number in range(pages))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>"]
    objects += ["<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] >>"] * pages
    if packed:
        stream = zlib.compress("\n".join(objects).encode())
        head = f"3 0 obj << /Type /ObjStm /N {len(objects)} /Filter /FlateDecode /Length {len(stream)} >>\nstream\n"
        body = head.encode() + stream + b"\nendstream endobj\n"
    else:
        body = "".join(f"{number} 0 obj {one} endobj\n" for number, one in enumerate(objects, 1)).encode()
    return base64.b64encode(b"%PDF-1.7\n" + body + f"% {pages} {text}\n%%EOF\n".encode()).decode()


def pdf_size(data: str) -> tuple[int, int]:
    """Return the number of pages, and the tokens of their text, of a file that ``pdf`` returned."""
    pages, text = base64.b64decode(data).splitlines()[-2].split()[1:]
    return int(pages), int(text)
