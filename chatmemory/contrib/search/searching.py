"""Search in conversations: for people, newest first, and for models, by relevance.

People get the messages that contain all words. Models get the messages that fit best: a word counts by its root (its
first letters), rare words count more, long messages less, and the messages before and after a good one count as well.
See ``score``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from operator import or_
from typing import TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet

from chatmemory.contrib.search import planes
from chatmemory.contrib.search.corpus import Corpus, Range, ReplacedError
from chatmemory.contrib.search.planes import Planes
from chatmemory.contrib.search.postings import bitmap_of, set_bits
from chatmemory.contrib.search.query import Query, has_phrase, parse
from chatmemory.contrib.search.score import LENGTH_BITS, LENT, NORMS, OWN, weight
from chatmemory.contrib.search.segments import TYPE_NUMBERS, microseconds
from chatmemory.contrib.search.snippets import snippet
from chatmemory.contrib.search.tokenizer import sequence
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.reading import chunks
from chatmemory.models import Conversation, Message, Origin

NEWEST = "newest"
RELEVANCE = "relevance"
ORDERS = (NEWEST, RELEVANCE)

MOST_HITS = 100
"""The maximum number of hits of one page."""

_ATTEMPTS = 10
_CHECKED_AT_ONCE = 100
_MOST_CHECKED, _MOST_CHECKED_CHARS = 2_000, 2_000_000
"""A page reads at most so many messages, and characters, to look for a phrase."""

_MOST_READ = 500

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A message that was found."""

    conversation: Conversation

    position: int

    type: ChatMessageType

    text: str
    """The whole text of the message."""

    snippet: str
    """The part of the text that matches best, on one line, with ``…`` where text was left out."""

    marks: list[tuple[int, int]]
    """The matches in ``snippet``: start and end, in characters."""

    score: int | None
    """The score, which can be compared within one search; None if the order is ``"newest"``."""

    is_retained: bool

    eviction_reason: EvictionReason | None

    evicted_at: datetime | None

    created_at: datetime

    cursor: str
    """Pass it as ``after`` to get the hits after this one."""


class Hits(list[Hit]):
    """A page of hits."""

    next: str = ""
    """Pass it as ``after`` to get the page after this one; empty if there is none.

    If the query has a phrase, a page may have fewer hits than asked for, or none, and there are more.
    """


def search(
    conversations: QuerySet[Conversation],
    text: str,
    *,
    order: str = NEWEST,
    limit: int = 10,
    after: str = "",
    prefix: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    types: Collection[str] = (),
    evicted: bool | None = None,
    missing_from: Conversation | None = None,
    current: bool = False,
    readable: Collection[str] = (),
) -> Hits:
    """Return the messages of some conversations that match a query.

    The index does not know phrases, so the messages with their words are read: in one call at most 2,000 of them.

    Args:
        conversations: the conversations, with their database. Nothing else has an influence on the result.
        text: words, ``"a phrase"`` and ``-excluded`` words.
        order: ``"newest"``: messages with all words, the newest first. ``"relevance"``: the best first.
        limit: the maximum number of hits, at most ``MOST_HITS``.
        after: ``next`` of the page before, or the ``cursor`` of its last hit.
        prefix: whether the last word is a prefix, because it is still being typed.
        since, until: find messages that were said at or after, and before, a time.
        types: find only messages of these types, such as ``"USER"``.
        evicted: find only evicted messages, or only retained ones.
        missing_from: leave out the messages in the memory of this conversation, but not those of other memories.
        current: find only messages on the current branches.
        readable: the types of the messages that the reader may read; empty for all. The result is as if there were no
            others: unlike with ``types``, they have no influence on weights and scores.

    Raises:
        ValueError: an argument is invalid, or there are too many conversations.
    """
    if order not in ORDERS:
        raise InvalidValueError(
            "order must be %(orders)s, but is: %(value)r",
            code="invalid_choice",
            orders=" or ".join(f'"{name}"' for name in ORDERS),
            value=order,
        )
    if not 1 <= limit <= MOST_HITS:
        raise ValueError(f"limit must be between 1 and {MOST_HITS}, but is: {limit}")
    for argument, names in (("types", types), ("readable", readable)):
        for name in names:
            if name not in TYPE_NUMBERS:
                raise ValueError(f"{argument} must be among {', '.join(TYPE_NUMBERS)}, but one is: {name!r}")
    query = parse(text, prefix=prefix)
    if query.is_empty:
        return Hits()
    wanted = _Filters(since, until, types, evicted, missing_from, current)

    def hits(corpus: Corpus) -> Hits:
        return _SEARCHES[order](corpus, query, wanted, after).hits(conversations, limit)

    return with_corpus(conversations, hits, readable)


asearch = as_async_read(search)
"""Async version of ``search``."""


def newest_matches(
    conversations: QuerySet[Conversation],
    query: Query,
    most: int,
    *,
    with_messages: bool = True,
    readable: Collection[str] = (),
) -> tuple[list[Message], list[UUID]] | None:
    """Return the newest messages that match, the last first, and the conversations that have older ones.

    Args:
        conversations: the conversations to search, with their database.
        query: the query, which is not empty.
        most: the maximum number of messages. At most ``_MOST_READ`` are read to look for a phrase. Of older messages it
            is only known that they contain all words, in any order.
        with_messages: whether messages are wanted, or only the conversations. Without a phrase, none is then read.
        readable: the types of the messages that the reader may read; empty for all.

    Returns:
        The messages, with few of their fields, and the conversations' primary keys. None if the index is so incomplete
        that a search does not find all messages.

    Raises:
        TooManyConversationsError: there are too many conversations.
    """

    def matches(corpus: Corpus) -> tuple[list[Message], list[UUID]] | None:
        if corpus.unread:
            return None
        found = _Newest(corpus, query, _Filters(), "")
        if found.is_checked:
            return found.matches(conversations, min(most, _MOST_READ))
        return found.matches(conversations, most if with_messages else 0)

    return with_corpus(conversations, matches, readable)


def with_corpus(
    conversations: QuerySet[Conversation], work: Callable[[Corpus], T], readable: Collection[str] = ()
) -> T:
    """Return the result of ``work``, which is called again if another process replaces the index meanwhile.

    Args:
        conversations: the conversations, with their database.
        work: gets their documents.
        readable: the types of the messages that the reader may read; empty for all.

    Raises:
        RuntimeError: the index was replaced each time.
        ValueError: there are too many conversations.
    """
    for _ in range(_ATTEMPTS):
        try:
            return work(Corpus(conversations, readable))
        except ReplacedError:
            continue
    raise RuntimeError("the index was replaced during each attempt to read it")


@dataclass(frozen=True)
class _Filters:
    since: datetime | None = None
    until: datetime | None = None
    types: Collection[str] = ()
    evicted: bool | None = None
    missing_from: Conversation | None = None
    current: bool = False

    def documents(self, corpus: Corpus) -> int:
        found = corpus.documents
        if self.types:
            found &= corpus.of_types(self.types)
        if self.since is not None or self.until is not None:
            period = (None if moment is None else microseconds(moment) for moment in (self.since, self.until))
            found &= corpus.said_between(*period)
        if self.evicted is not None:
            retained = corpus.retained()
            found &= ~retained if self.evicted else retained
        if self.missing_from is not None:
            found &= ~corpus.retained([self.missing_from.pk])
        if self.current:
            found &= corpus.on_current_branches()
        return found


class _Search(ABC):
    """One search. Subclasses define the order.

    A key is what documents are sorted by, the greatest first. Its last part is the document.
    """

    phrases: tuple[tuple[str, ...], ...]
    """Tokens that must follow each other in a message."""

    required: list[Range]
    """A message must contain a token of each of these."""

    scored: list[Range]
    """The tokens that count for the score."""

    is_related = False
    """Whether related words match, too."""

    def __init__(self, corpus: Corpus, query: Query, filters: _Filters, after: str) -> None:
        self.corpus = corpus
        self.query = query
        self.after = after
        # The text decides on longer sequences.
        excluded = [Range.exactly(some[0]) for some in query.excluded if len(some) == 1]
        self.bitmaps = corpus.containing({*self.required, *excluded, *self.scored})
        self.allowed = filters.documents(corpus)
        for wanted in self.required:
            self.allowed &= self.bitmaps[wanted]
        for unwanted in excluded:
            self.allowed &= ~self.bitmaps[unwanted]
        self.is_checked = bool(self.phrases) or any(len(some) > 1 for some in query.excluded)

    @abstractmethod
    def best(self, most: int, after: str) -> list[tuple[int, str, int | None]]:
        """Return the best documents behind a cursor: each with its cursor and its score."""

    def hits(self, conversations: QuerySet[Conversation], limit: int) -> Hits:
        """Return the hits of a page."""
        found = Hits()
        after, checked, chars = self.after, 0, 0
        while True:
            wanted = _CHECKED_AT_ONCE if self.is_checked else limit
            documents = self.best(wanted, after)
            rows = self._rows(conversations, [document for document, _, _ in documents])
            for document, after, score in documents:
                if (row := rows.get(document)) is None:
                    continue
                if self.is_checked:
                    checked, chars = checked + 1, chars + len(row.text)
                if self._fits(row.text):
                    found.append(self._hit(row, after, score))
                if len(found) == limit or checked >= _MOST_CHECKED or chars >= _MOST_CHECKED_CHARS:
                    found.next = after
                    return found
            if len(documents) < wanted:
                return found

    def _rows(
        self, conversations: QuerySet[Conversation], documents: list[int], fields: Collection[str] | None = None
    ) -> dict[int, Message]:
        positions: dict[UUID, list[int]] = {}
        for document in documents:
            key, position = self.corpus.place(document)
            positions.setdefault(key, []).append(position)
        if not positions:
            return {}
        place = reduce(or_, (Q(conversation=key, position__in=some) for key, some in positions.items()))
        # The conversations once more: their owner may have changed.
        rows = Message.objects.using(self.corpus.database).filter(
            place, origin=Origin.SAID, conversation__in=conversations.order_by().values("pk")
        )
        rows = rows.select_related("conversation") if fields is None else rows.only(*fields)
        return {self.corpus.document(row.conversation_id, row.position): row for row in rows}

    def _fits(self, text: str) -> bool:
        if not self.is_checked:
            return True
        steps = sequence(text)
        return all(has_phrase(phrase, steps) for phrase in self.phrases) and not any(
            len(some) > 1 and has_phrase(some, steps) for some in self.query.excluded
        )

    def _hit(self, row: Message, cursor: str, score: int | None) -> Hit:
        part, marks = snippet(row.text, self.query, related=self.is_related)
        return Hit(
            conversation=row.conversation,
            position=row.position,
            type=ChatMessageType(row.type),
            text=row.text,
            snippet=part,
            marks=marks,
            score=score,
            is_retained=row.is_retained,
            eviction_reason=EvictionReason(row.eviction_reason) if row.eviction_reason else None,
            evicted_at=row.evicted_at,
            created_at=row.created_at,
            cursor=cursor,
        )


class _Newest(_Search):
    """All words, the newest first."""

    def __init__(self, corpus: Corpus, query: Query, filters: _Filters, after: str) -> None:
        self.phrases = query.phrases
        tokens = dict.fromkeys([*query.words, *(token for phrase in query.phrases for token in phrase)])
        self.required = [Range.exactly(token) for token in tokens]
        if query.prefix is not None:
            self.required.append(Range.starting_with(query.prefix))
        self.scored = []
        super().__init__(corpus, query, filters, after)

    def best(self, most: int, after: str) -> list[tuple[int, str, int | None]]:
        corpus = self.corpus
        before = None
        if after:
            time, document = _read_cursor(after, corpus)
            before = (time, document)
        if corpus.is_one:
            allowed = self.allowed if before is None else self.allowed & ((1 << before[1]) - 1)
            found = [(0, document) for document in reversed(set_bits(planes.last(allowed, most)))]
        else:
            found = corpus.newest(self.allowed, most, before)
        return [(document, _cursor(time, document, corpus), None) for time, document in found]

    def matches(self, conversations: QuerySet[Conversation], most: int) -> tuple[list[Message], list[UUID]]:
        """See ``newest_matches``."""
        documents = [document for document, _, _ in self.best(most, "")] if most else []
        fields = {"conversation", "position", "created_at", *(["text"] if self.is_checked else [])}
        found: list[Message] = []
        for some in chunks(documents, _CHECKED_AT_ONCE):
            rows = self._rows(conversations, some, fields)
            there = [row for document in some if (row := rows.get(document))]
            found += [row for row in there if self._fits(row.text)] if self.is_checked else there
        seen = int.from_bytes(bitmap_of(documents, self.allowed.bit_length()), "little")
        return found, self.corpus.conversations(self.allowed & ~seen)


class _Relevance(_Search):
    """Any word, the best first."""

    is_related = True

    def __init__(self, corpus: Corpus, query: Query, filters: _Filters, after: str) -> None:
        self.phrases = query.quoted
        self.required = [Range.exactly(token) for phrase in query.quoted for token in phrase]
        self.scored = [*dict.fromkeys(Range.of_root(token) for token in query.terms)]
        super().__init__(corpus, query, filters, after)

    @cached_property
    def scores(self) -> list[int]:
        """The scores of all documents, as planes."""
        facts, documents = self.corpus.facts, self.corpus.documents
        norm: list[int] = []
        for number, members in zip(NORMS, planes.split(facts[:LENGTH_BITS], documents), strict=True):
            norm = planes.join(norm, planes.constant(number, members))
        total = documents.bit_count()
        words: list[int] = []
        for wanted in self.scored:
            if bitmap := self.bitmaps[wanted]:
                words = planes.add(words, planes.constant(weight(bitmap.bit_count(), total), bitmap))
        own = planes.multiply(words, norm)
        lent = planes.times(LENT, planes.add(planes.earlier(own), planes.later(own)))
        return planes.restrict(planes.add(planes.times(OWN, own), lent), self.allowed)

    def best(self, most: int, after: str) -> list[tuple[int, str, int | None]]:
        scores = self.scores
        if after:
            score, document = _read_cursor(after, self.corpus)
            less, equal = planes.compare(scores, score, self.allowed)
            scores = planes.restrict(scores, less | (equal & ((1 << document) - 1)))
        return [(document, _cursor(score, document, self.corpus), score) for score, document in _greatest(scores, most)]


def most_relevant(corpus: Corpus, query: Query, choices: Iterable[int], most: int) -> list[list[int]]:
    """Return the best documents of a corpus by relevance, the best first, for each of some choices among them.

    Args:
        corpus: the corpus, from which weights come.
        query: a query without phrases and exclusions, such as that of ``query.any_word``.
        choices: each choice as a bitmap of documents.
        most: the maximum number of documents for each choice.

    Raises:
        ReplacedError: another process has replaced a segment of the index.
    """
    scores = _Relevance(corpus, query, _Filters(), "").scores
    return [[document for _, document in _greatest(planes.restrict(scores, documents), most)] for documents in choices]


def _greatest(scores: Planes, most: int) -> list[tuple[int, int]]:
    """Return the greatest scores with their documents, the greatest first."""
    found = [(planes.number_at(scores, document), document) for document in set_bits(planes.greatest(scores, most))]
    return sorted(found, reverse=True)


_SEARCHES: dict[str, type[_Search]] = {NEWEST: _Newest, RELEVANCE: _Relevance}


def _cursor(number: int, document: int, corpus: Corpus) -> str:
    conversation, position = corpus.place(document)
    return f"{number}.{conversation.hex}.{position}"


# A time before 1970 is negative.
_CURSOR = re.compile(r"(-?\d{1,18})\.([0-9a-f]{32})\.(\d{1,10})", re.ASCII)


def is_cursor(text: str) -> bool:
    """Return whether a text may be the ``cursor`` of a hit, of any search."""
    return bool(_CURSOR.fullmatch(text))


def _read_cursor(cursor: str, corpus: Corpus) -> tuple[int, int]:
    read = _CURSOR.fullmatch(cursor)
    if read is None:
        raise InvalidValueError("after must be the cursor of a hit", code="invalid")
    return int(read[1]), corpus.document(UUID(read[2]), int(read[3]))
