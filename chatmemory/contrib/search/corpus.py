"""The documents that one search is about, as bits of integers.

Bits are in the order of conversations, and of positions within a conversation. The bits of a conversation start at a
whole byte and end with a free bit, so that the first message of a conversation is not behind the last one of another.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from chatmemory.contrib.search import planes, segments
from chatmemory.contrib.search.models import Page as PageRow
from chatmemory.contrib.search.models import Segment as SegmentRow
from chatmemory.contrib.search.postings import Page, bitmap_bytes, bitmap_of, set_bits
from chatmemory.contrib.search.score import LENGTH_BITS
from chatmemory.contrib.search.segments import STEP, Said
from chatmemory.contrib.search.tokenizer import is_beginning, root
from chatmemory.database.reading import chunks
from chatmemory.models import Branch, Conversation, Message, Origin
from chatmemory.models.branch import OPEN_END

MOST_CONVERSATIONS = 10_000
"""The maximum number of conversations of one search."""

MOST_UNINDEXED = 2_000
"""A search reads at most so many messages of a conversation that are not indexed, the newest."""

_TAILS_AT_ONCE = 100
_TIMES_AT_ONCE = 20


class Range(NamedTuple):
    """Consecutive tokens."""

    first: str

    end: str
    """The first token that does not belong to the range."""

    @classmethod
    def exactly(cls, token: str) -> Range:
        """Return the tokens that a token of a query matches."""
        return cls.starting_with(token) if is_beginning(token) else cls(token, token + "\0")

    @classmethod
    def starting_with(cls, prefix: str) -> Range:
        return cls(prefix, prefix + "\U0010ffff")

    @classmethod
    def of_root(cls, token: str) -> Range:
        """Return all words with the same root; for a token without a root, what it matches."""
        stem = root(token)
        return cls.exactly(token) if stem is None else cls.starting_with(stem)


class TooManyConversationsError(ValueError):
    """A search is about more than ``MOST_CONVERSATIONS``."""


class ReplacedError(Exception):
    """Another process has replaced a segment that was being read."""


@dataclass
class _Part:
    """Some documents: a segment of the index, or messages that are not indexed yet."""

    at: int
    """The byte at which the bits start."""

    size: int
    facts: bytes
    oldest: int
    newest: int
    source: SegmentRow | segments.Segment

    @property
    def place(self) -> slice:
        """The bytes of the bits."""
        return slice(self.at, self.at + bitmap_bytes(self.size))


class Corpus:
    """The documents of conversations, as they are now.

    Args:
        conversations: the conversations, with their database.
        readable: the types of the messages that the reader may read; empty for all. The others are no documents:
            nothing of them has an influence on a score.

    Raises:
        TooManyConversationsError: there are more than ``MOST_CONVERSATIONS``.
    """

    def __init__(self, conversations: QuerySet[Conversation], readable: Collection[str] = ()) -> None:
        self.database = conversations.db
        self._readable = readable
        ends = conversations.order_by("pk").values_list("pk", "next_position")
        self._keys: list[UUID] = []
        self._at: list[int] = []
        self._length = 0
        self._ends: list[int] = []
        for key, end in ends[: MOST_CONVERSATIONS + 1]:
            self._keys.append(key)
            self._at.append(self._length)
            self._ends.append(end)
            self._length += end // 8 + 1
        if len(self._keys) > MOST_CONVERSATIONS:
            raise TooManyConversationsError(
                f"a search is limited to {MOST_CONVERSATIONS} conversations; filter them, for example by owner"
            )
        self.unread = 0
        """The number of positions that are not indexed, and so many that no search reads them."""

        self._end = -1  # a bitmap of the documents before the end, where -1 has all bits
        self._indexed_to = [0] * len(self._keys)
        self._parts = list(self._indexed())
        self._parts += self._unindexed()

    @property
    def is_one(self) -> bool:
        """Whether it consists of one conversation."""
        return len(self._keys) == 1

    def place(self, document: int) -> tuple[UUID, int]:
        """Return the conversation of a document, and its position."""
        index = bisect_right(self._at, document // 8) - 1
        return self._keys[index], document - 8 * self._at[index]

    def document(self, conversation: UUID, position: int) -> int:
        """Return the number of the document at a position; if the conversation is missing, where it would be."""
        index = bisect_right(self._keys, conversation)
        if index and self._keys[index - 1] == conversation:
            return 8 * self._at[index - 1] + min(position, self._ends[index - 1])
        return 8 * (self._at[index] if index < len(self._at) else self._length)

    def conversations(self, documents: int) -> list[UUID]:
        """Return the conversations that have some of these documents."""
        bits = documents.to_bytes(self._length, "little")
        ends = [*self._at[1:], self._length]
        return [
            key for key, start, end in zip(self._keys, self._at, ends, strict=False) if bits[start:end].strip(b"\0")
        ]

    def before(self, document: int) -> Corpus:
        """Return the corpus without a document and those after it: of one conversation, what had been said then."""
        past = copy(self)
        past._end = (1 << document) - 1
        past.facts = [plane & past._end for plane in self.facts]
        past.documents = self.documents & past._end
        return past

    @cached_property
    def facts(self) -> list[int]:
        """The planes of ``Segment.facts``."""
        found = [bytearray(self._length) for _ in range(segments.FACTS)]
        for part in self._parts:
            width = bitmap_bytes(part.size)
            for bit, plane in enumerate(found):
                plane[part.place] = part.facts[bit * width : (bit + 1) * width]
        facts = [int.from_bytes(plane, "little") for plane in found]
        if self._readable:
            readable = _of_types(facts, self._readable)
            facts = [plane & readable for plane in facts]
        return facts

    @cached_property
    def documents(self) -> int:
        """All documents."""
        return planes.nonzero(self.facts[:LENGTH_BITS])

    def of_types(self, types: Collection[str]) -> int:
        """Return the documents of these types."""
        return _of_types(self.facts, types)

    def retained(self, conversations: Collection[UUID] | None = None) -> int:
        """Return the documents in the memories of these conversations, by default of all.

        A message of which the memory has a copy is in the memory.
        """
        found: list[int] = []
        for keys in chunks(
            self._keys if conversations is None else [key for key in conversations if key in self._keys]
        ):
            rows = Message.objects.using(self.database).filter(conversation__in=keys, evicted_in__isnull=True)
            rows = rows.filter(origin__in=(Origin.SAID, Origin.COPY, Origin.RESTORED)).order_by()
            for key, position, covered in rows.values_list("conversation", "position", "covers_from"):
                found.append(self.document(key, position if covered is None else covered))
        return int.from_bytes(bitmap_of(found, 8 * self._length), "little")

    def on_current_branches(self) -> int:
        """Return the documents on the current branches of their conversations."""
        found = self.documents
        for keys in chunks(self._keys):
            rows = Branch.objects.using(self.database).filter(conversation__in=keys).order_by("conversation", "version")
            ends: dict[UUID, int] = {}
            for key, start, last in rows.values_list("conversation", "start", "current_to").reverse():
                first, end = self.document(key, start), ends.get(key, self.document(key, OPEN_END))
                ends[key] = first
                there = first if last is None else min(self.document(key, last) + 1, end)
                if there < end:
                    found &= ~(((1 << (end - there)) - 1) << there)
        return found

    def said_between(self, since: int | None, until: int | None) -> int:
        """Return the documents that were said at or after ``since``, and before ``until``, in microseconds."""
        first = since if since is not None else -(2**63)
        end = until if until is not None else 2**63
        bitmap = bytearray(self._length)
        cut = []
        for part in self._parts:
            if first <= part.oldest and part.newest < end:
                bitmap[part.place] = b"\xff" * bitmap_bytes(part.size)
            elif part.newest >= first and part.oldest < end:
                cut.append(part)
        for part, times in self._times(cut):
            for number, time in enumerate(times):
                if first <= time < end:
                    bitmap[part.at + (number >> 3)] |= 1 << (number & 7)
        return int.from_bytes(bitmap, "little") & self.documents

    def newest(self, documents: int, most: int, before: tuple[int, int] | None) -> list[tuple[int, int]]:
        """Return the documents that were said last, with the times, the last first.

        Args:
            documents: the documents to choose from.
            most: the maximum number to return.
            before: a time and a document; only those before it are returned.
        """
        bits = documents.to_bytes(self._length, "little")
        found: list[tuple[int, int]] = []
        parts = [part for part in self._parts if any(bits[part.place])]
        for some in chunks(sorted(parts, key=lambda part: part.newest, reverse=True), _TIMES_AT_ONCE):
            if len(found) == most and some[0].newest < found[-1][0]:
                break
            for part, times in self._times(some):
                numbers = set_bits(int.from_bytes(bits[part.place], "little"))
                found.extend((times[number], 8 * part.at + number) for number in numbers)
            found = heapq.nlargest(most, (pair for pair in found if before is None or pair < before))
        return found

    def containing(self, ranges: Iterable[Range]) -> dict[Range, int]:
        """Return for each range the documents that contain one of its tokens.

        Raises:
            ReplacedError: another process has replaced a segment.
        """
        bitmaps = {wanted: bytearray(self._length) for wanted in ranges}
        pages: dict[int, tuple[_Part, UUID, list[Range]]] = {}
        for part in self._parts:
            if isinstance(part.source, segments.Segment):
                for wanted, bitmap in bitmaps.items():
                    part.source.mark(wanted.first, wanted.end, bitmap, part.at)
                continue
            directory = segments.Directory(part.source)
            for wanted in bitmaps:
                for key in directory.pages(wanted.first, wanted.end):
                    pages.setdefault(key, (part, part.source.conversation_id, []))[2].append(wanted)
        missing = set(pages)
        for keys in chunks(list(pages)):
            # By the primary key alone, many conversations would ask every shard of a distributed table.
            conversations = {pages[key][1] for key in keys}
            rows = PageRow.objects.using(self.database).filter(conversation__in=conversations, pk__in=keys)
            for key, data in rows.values_list("pk", "data"):
                part, _, here = pages[key]
                page = Page(bytes(data), part.size)
                for wanted in here:
                    page.mark(wanted.first, wanted.end, bitmaps[wanted], part.at)
                missing.discard(key)
        if missing:
            raise ReplacedError
        there = self.documents
        return {wanted: int.from_bytes(bitmap, "little") & there for wanted, bitmap in bitmaps.items()}

    def _indexed(self) -> Iterator[_Part]:
        for keys in chunks(self._keys):
            rows = SegmentRow.objects.using(self.database).filter(conversation__in=keys).defer("times")
            for row in rows.order_by("conversation", "start"):
                index = bisect_left(self._keys, row.conversation_id)
                if row.start + row.size <= self._ends[index]:
                    self._indexed_to[index] = row.start + row.size
                    at = self._at[index] + row.start // 8
                    yield _Part(at, row.size, bytes(row.facts), row.oldest, row.newest, row)

    def _unindexed(self) -> Iterator[_Part]:
        tails = []
        for index, end in enumerate(self._ends):
            start = max(self._indexed_to[index], (end - MOST_UNINDEXED) // STEP * STEP)
            self.unread += start - self._indexed_to[index]
            if start < end:
                tails.append((index, start))
        for some in chunks(tails, _TAILS_AT_ONCE):
            place = reduce(or_, (Q(conversation=self._keys[index], position__gte=start) for index, start in some))
            rows = Message.objects.using(self.database).filter(place, origin=Origin.SAID).exclude(text="").order_by()
            messages: dict[UUID, list[Said]] = {}
            for key, *columns in rows.values_list("conversation", *Said._fields):
                messages.setdefault(key, []).append(Said(*columns))
            for index, start in some:
                end = self._ends[index]
                there = sorted(said for said in messages.get(self._keys[index], ()) if said.position < end)
                if there:
                    new = segments.Segment.of(there, start, -(-(end - start) // STEP) * STEP)
                    at = self._at[index] + start // 8
                    yield _Part(at, new.size, new.planes(), *new.period(), new)

    def _times(self, parts: Iterable[_Part]) -> Iterator[tuple[_Part, Sequence[int]]]:
        for some in chunks(list(parts), _TIMES_AT_ONCE):
            rows = [part.source for part in some if isinstance(part.source, SegmentRow)]
            stored = SegmentRow.objects.using(self.database).filter(
                conversation__in={row.conversation_id for row in rows}, pk__in=[row.pk for row in rows]
            )
            times = {row.pk: segments.read_times(row) for row in stored.only("times", "size")} if rows else {}
            for part in some:
                if isinstance(part.source, segments.Segment):
                    yield part, part.source.times
                elif part.source.pk in times:
                    yield part, times[part.source.pk]
                else:
                    raise ReplacedError


def _of_types(facts: Sequence[int], types: Collection[str]) -> int:
    """Return the documents of these types among those of the planes of ``Segment.facts``."""
    found = 0
    for name in types:
        matching = planes.nonzero(facts[:LENGTH_BITS])
        for bit, plane in enumerate(facts[LENGTH_BITS:]):
            matching &= plane if segments.TYPE_NUMBERS[name] >> bit & 1 else ~plane
        found |= matching
    return found
