"""Postings: which documents of a segment contain a token, in compressed pages.

A segment has up to 65,536 documents, with the numbers 0, 1, 2 … Its tokens are sorted by code points and divided into
pages of some kilobytes, so that all tokens with the same beginning are in neighbouring pages. A set of documents is a
bitmap: bit 0 of the first byte is document 0.

A page is compressed with zlib. It contains the length of the tokens' text (4 bytes, little-endian), the tokens in
UTF-8 with newlines between them, the number of documents of each token less one (2 bytes each), and these documents:
their numbers (1 byte each in a segment of at most 256 documents, otherwise 2), or a bitmap if it is not much longer.
"""

from __future__ import annotations

import re
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

MOST_DOCUMENTS = 65_536
"""The maximum number of documents in a segment."""

_PAGE_BYTES = 4_000
_LONGER_BITMAP = 4
"""A bitmap of a large segment may be this many times as long as the numbers, because it is read at once."""

Postings = Mapping[str, "array[int]"]
"""The numbers of the documents of each token, ascending."""


def bitmap_bytes(documents: int) -> int:
    """Return the length of a bitmap of so many documents."""
    return (documents + 7) // 8


def to_pages(postings: Postings, documents: int) -> Iterator[tuple[str, bytes]]:
    """Yield the pages of a segment, each with its first token.

    Args:
        postings: the postings of the segment.
        documents: the number of documents in the segment.
    """
    tokens: list[str] = []
    counts: list[int] = []
    blobs: list[bytes] = []
    length = 0
    least, is_short = _least_in_bitmap(documents), _width(documents) == 1
    for token in sorted(postings):
        numbers = postings[token]
        if len(numbers) >= least:
            blob = bitmap_of(numbers, documents)
        else:
            blob = bytes(numbers.tolist()) if is_short else bytes_of(numbers)
        tokens.append(token)
        counts.append(len(numbers) - 1)
        blobs.append(blob)
        length += len(token) + 3 + len(blob)
        if length >= _PAGE_BYTES:
            yield tokens[0], _page(tokens, counts, blobs)
            tokens, counts, blobs, length = [], [], [], 0
    if tokens:
        yield tokens[0], _page(tokens, counts, blobs)


class Page:
    """A page that was read.

    Args:
        data: the compressed page.
        documents: the number of documents in the segment.
    """

    def __init__(self, data: bytes, documents: int) -> None:
        raw = zlib.decompress(data)
        length = int.from_bytes(raw[:4], "little")
        self._documents = documents
        self._tokens = raw[4 : 4 + length].decode().split("\n")
        start = 4 + length
        self._counts = [count + 1 for count in numbers_of("H", raw[start : start + 2 * len(self._tokens)])]
        width, bitmap, least = _width(documents), bitmap_bytes(documents), _least_in_bitmap(documents)
        lengths = [bitmap if count >= least else count * width for count in self._counts]
        self._starts = list(accumulate(lengths, initial=start + 2 * len(self._tokens)))
        self._least_in_bitmap = least
        self._raw = raw

    def mark(self, first: str, end: str, bitmap: bytearray, at: int) -> None:
        """Set the bits of the documents that contain a token of a range.

        Args:
            first: the first token of the range.
            end: the end of the range, which is not in it.
            bitmap: the bitmap to change.
            at: the byte of the bitmap at which the segment starts.
        """
        for index in range(bisect_left(self._tokens, first), bisect_left(self._tokens, end)):
            blob = self._blob(index)
            if self._counts[index] >= self._least_in_bitmap:
                here = slice(at, at + len(blob))
                both = int.from_bytes(bitmap[here], "little") | int.from_bytes(blob, "little")
                bitmap[here] = both.to_bytes(len(blob), "little")
            else:
                for number in numbers_of(_type_code(self._documents), blob):
                    bitmap[at + (number >> 3)] |= 1 << (number & 7)

    def postings(self) -> Iterator[tuple[str, array[int]]]:
        """Yield each token with the numbers of its documents."""
        raw, starts, least = self._raw, self._starts, self._least_in_bitmap
        is_short = self._documents <= 256
        for index, (token, count) in enumerate(zip(self._tokens, self._counts, strict=True)):
            blob = raw[starts[index] : starts[index + 1]]
            if count >= least:
                yield token, array("H", set_bits(int.from_bytes(blob, "little")))
            else:
                yield token, array("H", list(blob)) if is_short else numbers_of("H", blob)

    def _blob(self, index: int) -> bytes:
        return self._raw[self._starts[index] : self._starts[index + 1]]


def merge(parts: Iterable[tuple[int, Iterable[tuple[str, array[int]]]]]) -> dict[str, array[int]]:
    """Return the postings of several segments as those of one.

    Args:
        parts: for each segment, what is added to the numbers of its documents, and its postings. The numbers of later
            segments are greater.
    """
    merged: dict[str, array[int]] = {}
    for offset, postings in parts:
        for token, numbers in postings:
            moved = array("H", [number + offset for number in numbers]) if offset else numbers
            if token in merged:
                merged[token].extend(moved)
            else:
                merged[token] = array("H", moved)
    return merged


def postings_of(documents: Iterable[tuple[int, Iterable[str]]]) -> dict[str, array[int]]:
    """Return the postings of documents, which are given by number and tokens, in ascending order."""
    postings: dict[str, array[int]] = {}
    for number, tokens in documents:
        for token in set(tokens):
            numbers = postings.get(token)
            if numbers is None:
                postings[token] = array("H", (number,))
            else:
                numbers.append(number)
    return postings


def set_bits(bitmap: int) -> list[int]:
    """Return the numbers of the documents in a bitmap, ascending."""
    found: list[int] = []
    data = bitmap.to_bytes((bitmap.bit_length() + 7) // 8, "little")
    for match in _NOT_ZERO.finditer(data):
        first = 8 * match.start()
        found.extend(first + bit for bit in _BITS[match[0][0]])
    return found


_NOT_ZERO = re.compile(rb"[^\0]")
_BITS = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]


def _page(tokens: list[str], counts: list[int], blobs: list[bytes]) -> bytes:
    text = "\n".join(tokens).encode()
    return zlib.compress(b"".join([len(text).to_bytes(4, "little"), text, bytes_of(array("H", counts)), *blobs]))


def bitmap_of(numbers: Iterable[int], documents: int) -> bytes:
    """Return the bitmap of some of so many documents."""
    bitmap = bytearray(bitmap_bytes(documents))
    for number in numbers:
        bitmap[number >> 3] |= 1 << (number & 7)
    return bytes(bitmap)


def _least_in_bitmap(documents: int) -> int:
    """Return the least number of documents of a token that is stored as a bitmap."""
    if documents <= 256:
        return bitmap_bytes(documents)
    return -(-bitmap_bytes(documents) // (2 * _LONGER_BITMAP))


def _width(documents: int) -> int:
    return 1 if documents <= 256 else 2


def _type_code(documents: int) -> str:
    return "B" if documents <= 256 else "H"


def numbers_of(type_code: str, data: bytes) -> array[int]:
    """Return the numbers that ``bytes_of`` wrote."""
    numbers: array[int] = array(type_code)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def bytes_of(numbers: array[int]) -> bytes:
    """Return the numbers as bytes, little-endian on every machine."""
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()
