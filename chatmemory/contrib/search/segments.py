"""Segments: made from messages, merged, read and written."""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.utils.timezone import is_aware

from chatmemory.contrib.search.models import Page as PageRow
from chatmemory.contrib.search.models import Segment as SegmentRow
from chatmemory.contrib.search.postings import (
    Page,
    bitmap_bytes,
    bytes_of,
    merge,
    numbers_of,
    postings_of,
    set_bits,
    to_pages,
)
from chatmemory.contrib.search.score import LENGTH_BITS, length_class
from chatmemory.contrib.search.tokenizer import token_texts
from chatmemory.database.reading import chunks
from chatmemory.models import TYPES, Conversation

STEP = 8
"""Segments start and end at multiples of this, so that their bitmaps can be joined."""

FACTS = 8
"""The number of bitmaps of ``Segment.facts``."""

TYPE_NUMBERS = {name: number for number, (name, _label) in enumerate(TYPES)}

_NO_TOKENS = 0  # the class of lengths of numbers that are no documents


class Said(NamedTuple):
    """The columns of a message that the index contains."""

    position: int
    type: str
    text: str
    created_at: datetime


@dataclass
class Segment:
    """A segment that is not stored yet."""

    start: int
    size: int
    facts: bytearray
    """For each document the number of its type, and the class of its length."""

    times: array[int]
    postings: dict[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, messages: Iterable[Said], start: int, size: int) -> Segment:
        """Return the segment of the positions from ``start``."""
        facts, times = bytearray(size), array("q", bytes(8 * size))
        documents = []
        for message in messages:
            tokens = token_texts(message.text)
            if tokens:
                number = message.position - start
                facts[number] = TYPE_NUMBERS[message.type] << LENGTH_BITS | length_class(len(tokens))
                times[number] = microseconds(message.created_at)
                documents.append((number, tokens))
        return cls(start, size, facts, times, postings_of(documents))

    @classmethod
    def read(cls, row: SegmentRow) -> Segment:
        """Return a segment of the database."""
        postings = {token: numbers for page in pages_of(row) for token, numbers in page.postings()}
        return cls(row.start, row.size, _documents_of(bytes(row.facts), row.size), read_times(row), postings)

    @classmethod
    def merged(cls, parts: Sequence[Segment]) -> Segment:
        """Return one segment with the documents of consecutive segments."""
        first = parts[0]
        facts, times = bytearray(), array("q")
        for part in parts:
            facts += part.facts
            times += part.times
        postings = merge((part.start - first.start, part.postings) for part in parts)
        return cls(first.start, len(facts), facts, times, postings)

    def remove(self, positions: Collection[int]) -> bool:
        """Remove documents, and return whether any of them was there."""
        gone = {position - self.start for position in positions}
        gone = {number for number in gone if 0 <= number < self.size and self.facts[number]}
        for number in gone:
            self.facts[number] = self.times[number] = 0
        if gone:
            left = {
                token: bytes_of(array("H", [number for number in numbers_of("H", blob) if number not in gone]))
                for token, blob in self.postings.items()
            }
            self.postings = {token: blob for token, blob in left.items() if blob}
        return bool(gone)

    def mark(self, first: str, end: str, bitmap: bytearray, at: int) -> None:
        """Set the bits of the documents that contain a token of a range: see ``postings.Page.mark``."""
        for token, blob in self.postings.items():
            if first <= token < end:
                for number in numbers_of("H", blob):
                    bitmap[at + (number >> 3)] |= 1 << (number & 7)

    def period(self) -> tuple[int, int]:
        """Return when the first and the last message were said."""
        times = [time for time in self.times if time]
        return min(times, default=0), max(times, default=0)

    def planes(self) -> bytes:
        """Return ``Segment.facts``."""
        return b"".join(
            int(bytes(self.facts).translate(_DIGITS[bit])[::-1], 2).to_bytes(bitmap_bytes(self.size), "little")
            for bit in range(FACTS)
        )

    def save(self, conversation: Conversation) -> None:
        """Write the rows of the segment. The documents of a segment without any need no rows."""
        database = conversation._state.db
        tokens, blobs = [], []
        for token, data in to_pages(self.postings, self.size):
            tokens.append(token)
            blobs.append(PageRow(conversation=conversation, data=data))
        for chunk in chunks(blobs, _PAGES_AT_ONCE):
            PageRow.objects.using(database).bulk_create(chunk)
        oldest, newest = self.period()
        SegmentRow.objects.using(database).bulk_create(
            [
                SegmentRow(
                    conversation=conversation,
                    start=self.start,
                    size=self.size,
                    facts=self.planes(),
                    times=zlib.compress(bytes_of(self.times)),
                    oldest=oldest,
                    newest=newest,
                    tokens="\n".join(tokens).encode(),
                    pages=bytes_of(array("q", [page.pk for page in blobs])),
                )
            ]
        )


_PAGES_AT_ONCE = 100

_DIGITS = [bytes(48 + (byte >> bit & 1) for byte in range(256)) for bit in range(FACTS)]


def keys_of(row: SegmentRow) -> array[int]:
    """Return the primary keys of a segment's pages, in the order of their tokens."""
    return numbers_of("q", bytes(row.pages))


def pages_of(row: SegmentRow) -> Iterator[Page]:
    """Yield the pages of a segment, in any order."""
    rows = PageRow.objects.using(row._state.db).filter(conversation=row.conversation_id)
    for keys in chunks(list(keys_of(row)), _PAGES_AT_ONCE):
        for data in rows.filter(pk__in=keys).values_list("data", flat=True):
            yield Page(bytes(data), row.size)


class Directory:
    """The first tokens of a segment's pages."""

    def __init__(self, row: SegmentRow) -> None:
        self._keys = keys_of(row)
        self._firsts = bytes(row.tokens).decode().split("\n")

    def pages(self, first: str, end: str) -> Sequence[int]:
        """Return the primary keys of the pages that may contain a token from ``first`` to before ``end``."""
        low = max(0, bisect_right(self._firsts, first) - 1)
        return self._keys[low : bisect_left(self._firsts, end)]


def read_times(row: SegmentRow) -> array[int]:
    """Return when each message of a segment was said; 0 for numbers that are no documents."""
    return numbers_of("q", zlib.decompress(bytes(row.times)))


def microseconds(moment: datetime) -> int:
    """Return the microseconds from 1970 to a moment."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC if is_aware(moment) else None)
    return (moment - epoch) // timedelta(microseconds=1)


def _documents_of(facts: bytes, size: int) -> bytearray:
    found = bytearray(size)
    width = bitmap_bytes(size)
    for bit in range(FACTS):
        for number in set_bits(int.from_bytes(facts[bit * width : (bit + 1) * width], "little")):
            found[number] |= 1 << bit
    return found
