"""Postings: which documents of a segment contain a token, in compressed pages.

A segment has up to 65,536 documents, with the numbers 0, 1, 2 … Its tokens are sorted by code points and divided into
pages of some kilobytes, so that all tokens with the same beginning are in neighbouring pages. A set of documents is a
bitmap: bit 0 of the first byte is document 0.

A page is compressed with zlib. It contains the length of the tokens' text (4 bytes, little-endian), the tokens in
UTF-8 with newlines between them, the number of documents of each token less one (2 bytes each), and these documents:
their numbers (2 bytes each), or a bitmap if it is not much longer.

In memory, too, the numbers of a token's documents are bytes: unlike lists and arrays, Python's garbage collector does
not have to look at them, and a segment has thousands of tokens.
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
"""A bitmap may be this many times as long as the numbers, because it is read at once."""

_WORTHWHILE = 0.75
"""A page is compressed if it becomes shorter than this part of its length."""

Postings = Mapping[str, bytes]
"""The numbers of the documents of each token, ascending: 2 bytes each, little-endian."""


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
    least = _least_in_bitmap(documents)
    for token in sorted(postings):
        blob = postings[token]
        count = len(blob) // 2
        if count >= least:
            blob = bitmap_of(numbers_of("H", blob), documents)
        tokens.append(token)
        counts.append(count - 1)
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
        self._tokens = raw[4 : 4 + length].decode().split("\n")
        start = 4 + length
        self._counts = [count + 1 for count in numbers_of("H", raw[start : start + 2 * len(self._tokens)])]
        bitmap, least = bitmap_bytes(documents), _least_in_bitmap(documents)
        lengths = [bitmap if count >= least else 2 * count for count in self._counts]
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
                for number in numbers_of("H", blob):
                    bitmap[at + (number >> 3)] |= 1 << (number & 7)

    def postings(self) -> Iterator[tuple[str, bytes]]:
        """Yield each token with the numbers of its documents, as in ``Postings``."""
        raw, starts, least = self._raw, self._starts, self._least_in_bitmap
        for index, (token, count) in enumerate(zip(self._tokens, self._counts, strict=True)):
            blob = raw[starts[index] : starts[index + 1]]
            if count >= least:
                blob = bytes_of(array("H", set_bits(int.from_bytes(blob, "little"))))
            yield token, blob

    def _blob(self, index: int) -> bytes:
        return self._raw[self._starts[index] : self._starts[index + 1]]


def merge(parts: Iterable[tuple[int, Postings]]) -> dict[str, bytes]:
    """Return the postings of several segments as those of one.

    Args:
        parts: for each segment, what is added to the numbers of its documents, and its postings. The numbers of later
            segments are greater.
    """
    merged: dict[str, bytes] = {}
    for offset, postings in parts:
        for token, blob in postings.items():
            moved = bytes_of(array("H", [number + offset for number in numbers_of("H", blob)]))
            merged[token] = merged.get(token, b"") + moved
    return merged


def postings_of(documents: Iterable[tuple[int, Iterable[str]]]) -> dict[str, bytes]:
    """Return the postings of documents, which are given by number and tokens, in ascending order."""
    postings: dict[str, bytes] = {}
    for number, tokens in documents:
        blob = number.to_bytes(2, "little")
        for token in set(tokens):
            postings[token] = postings.get(token, b"") + blob
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
    raw = b"".join([len(text).to_bytes(4, "little"), text, bytes_of(array("H", counts)), *blobs])
    packed = zlib.compress(raw)
    # Level 0 stores: bitmaps of common words hardly become smaller, and are read often.
    return packed if len(packed) < _WORTHWHILE * len(raw) else zlib.compress(raw, level=0)


def bitmap_of(numbers: Iterable[int], documents: int) -> bytes:
    """Return the bitmap of some of so many documents."""
    bitmap = bytearray(bitmap_bytes(documents))
    for number in numbers:
        bitmap[number >> 3] |= 1 << (number & 7)
    return bytes(bitmap)


def _least_in_bitmap(documents: int) -> int:
    """Return the least number of documents of a token that is stored as a bitmap."""
    return max(8, -(-bitmap_bytes(documents) // (2 * _LONGER_BITMAP)))


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
