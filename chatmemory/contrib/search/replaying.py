"""What a search would have found for past requests, among the messages that the window had lost.

A *request* here is the one that got the first answer to a user message, and its memory is replayed as in
``chatmemory.replaying``. The search is by relevance, for the words of the user message, among the earlier messages that
the memory no longer contained. The weights of words come from what had been said before the user message, because a
search then would have known no more. Nothing is written, and no model is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from chatmemory.contrib.search.corpus import Corpus
from chatmemory.contrib.search.postings import bitmap_of
from chatmemory.contrib.search.query import Query, any_word
from chatmemory.contrib.search.questions import Question
from chatmemory.contrib.search.searching import MOST_HITS, most_relevant, with_corpus
from chatmemory.core.asynchronous import as_async_iterator
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.operations.replay import PastMemory, check_variant, memories_before
from chatmemory.database.reading import is_answer, on_primary, pages, read_in_parts
from chatmemory.models import Conversation, Message, Origin, WindowSettings

HITS = 5
"""The maximum number of hits of one search, by default."""


@dataclass(frozen=True, kw_only=True)
class RecallFigures:
    """What recall would have added to the requests of conversations with one window.

    A question counts as answered by *one* if one of its positions was there, and by *all* if each was. Figures with
    summaries and with recall include what the window contained; recall does not include summaries.
    """

    conversations: int = 0

    requests: int = 0
    """User messages that were answered."""

    input_tokens: int = 0
    """The tokens of these requests, without hits."""

    lost: int = 0
    """Requests before which the memory had lost messages."""

    recalled: int = 0
    """Requests with hits."""

    hits: int = 0

    hit_tokens: int = 0

    questions: int = 0

    window_one: int = 0
    window_all: int = 0
    summaries_one: int = 0
    summaries_all: int = 0
    recall_one: int = 0
    recall_all: int = 0

    unread: int = 0
    """Positions that are not indexed, and too many for a search to read."""

    missing: int = 0
    """Messages that were deleted, so that nothing can find them."""

    @property
    def recalled_share(self) -> float:
        """The share of requests with hits, from 0 to 1."""
        return self.recalled / self.requests if self.requests else 0.0

    @property
    def added_share(self) -> float:
        """The tokens of the hits, as a share of those of the requests. It may exceed 1."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else 0.0

    def __add__(self, other: RecallFigures) -> RecallFigures:
        return RecallFigures(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def replay_recall(
    conversations: QuerySet[Conversation] | None = None,
    variants: Sequence[WindowSettings | None] = (None,),
    *,
    hits: int = HITS,
    questions: Collection[Question] = (),
) -> Iterator[list[RecallFigures]]:
    """Replay ``conversations``. Yield a list of figures for each, one item for each variant, in the order of
    ``variants``.

    Args:
        conversations: the conversations; by default all.
        variants: the settings of the windows, as for ``chatmemory.replaying.replay``.
        hits: the maximum number of hits of one search.
        questions: questions about the conversations.

    Raises:
        TypeError: a setting is unknown, or a replay does not take it.
        ValueError: a setting is invalid, or ``hits`` is not between 1 and ``MOST_HITS``.
    """
    for settings in variants:
        check_variant(settings or {})
    if not 1 <= hits <= MOST_HITS:
        raise ValueError(f"hits must be between 1 and {MOST_HITS}, but is: {hits}")
    asked: dict[UUID, list[Question]] = {}
    for question in questions:
        asked.setdefault(question.conversation, []).append(question)
    return _replay(on_primary(conversations), variants, hits, asked)


areplay_recall = as_async_iterator(replay_recall)
"""Async version of ``replay_recall``."""


def _replay(
    conversations: QuerySet[Conversation],
    variants: Sequence[WindowSettings | None],
    hits: int,
    asked: dict[UUID, list[Question]],
) -> Iterator[list[RecallFigures]]:
    for page in pages(conversations):
        for conversation in page:
            here = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
            replayed = _Conversation(conversation, variants, hits, asked.get(conversation.pk, []))
            try:
                yield with_corpus(here, replayed.figures)
            except Conversation.DoesNotExist:  # it has been erased
                continue


@dataclass(frozen=True)
class _Request:
    query: Query

    said_at: int
    """The position of the user message."""


class _Conversation:
    """The requests and the questions of a conversation.

    Args:
        conversation: the conversation.
        variants: as for ``replay_recall``.
        hits: as for ``replay_recall``.
        questions: the questions about the conversation.
    """

    def __init__(
        self,
        conversation: Conversation,
        variants: Sequence[WindowSettings | None],
        hits: int,
        questions: list[Question],
    ) -> None:
        self._conversation = conversation
        self._variants = variants
        self._hits = hits
        self._questions = questions

    def figures(self, corpus: Corpus) -> list[RecallFigures]:
        """Return the figures of each variant.

        Raises:
            ReplacedError: another process has replaced a segment of the index.
        """
        self._corpus = corpus
        requests = dict(self._requests())
        questions: dict[int, list[Question]] = {}
        for question in self._questions:
            questions.setdefault(question.at, []).append(question)
        counts: list[Counter[str]] = [Counter() for _ in self._variants]
        for at, memories in memories_before(self._conversation, self._variants, {*requests, *questions}):
            if at in requests:
                self._count_request(requests[at], memories, counts)
            for question in questions.get(at, ()):
                self._count_question(question, memories, counts)
        shared = {"conversations": 1, "missing": self._conversation.purged_count, "unread": corpus.unread}
        return [RecallFigures(**shared, **some) for some in counts]

    def _requests(self) -> Iterator[tuple[int, _Request]]:
        """Yield the requests, each with the position of its answer."""
        rows = self._rows().filter(type__in=(ChatMessageType.USER.value, ChatMessageType.AI.value))
        question: Message | None = None
        for row in read_in_parts(rows):
            if not is_answer(row):
                question = row
            elif question is not None:
                yield row.position, _Request(any_word(question.text), question.position)
                question = None

    def _count_request(self, request: _Request, memories: list[PastMemory], counts: list[Counter[str]]) -> None:
        lost, found = self._search(request.query, request.said_at, memories)
        tokens = dict(
            self._rows()
            .filter(position__in={position for some in found for position in some})
            .values_list("position", "token_count")
        )
        for memory, gone, positions, count in zip(memories, lost, found, counts, strict=True):
            count["requests"] += 1
            count["input_tokens"] += memory.tokens
            count["lost"] += bool(gone)
            count["recalled"] += bool(positions)
            count["hits"] += len(positions)
            count["hit_tokens"] += sum(tokens.get(position, 0) for position in positions)  # some may be erased by now

    def _count_question(self, question: Question, memories: list[PastMemory], counts: list[Counter[str]]) -> None:
        _, found = self._search(any_word(question.text), question.at, memories)
        for memory, positions, count in zip(memories, found, counts, strict=True):
            count["questions"] += 1
            wanted = question.positions
            there = wanted & memory.said
            summarised = {position for position in wanted if memory.summarises(position)}
            for name, answered in (
                ("window", there),
                ("summaries", there | summarised),
                ("recall", there | (wanted & set(positions))),
            ):
                count[f"{name}_one"] += bool(answered)
                count[f"{name}_all"] += answered == wanted

    def _search(self, query: Query, end: int, memories: list[PastMemory]) -> tuple[list[int], list[list[int]]]:
        """Return the messages that each memory had lost, as bitmaps, and the positions of the hits among them.

        Args:
            query: the words to search for.
            end: the position before which messages are searched.
            memories: the memory of each variant.
        """
        then = self._corpus.before(self._corpus.document(self._conversation.pk, end))
        lost = []
        for memory in memories:
            there = bitmap_of((position for position in memory.said if position < end), end)
            lost.append(then.documents & ~int.from_bytes(there, "little"))
        found = most_relevant(then, query, lost, self._hits)
        return lost, [[self._corpus.place(document)[1] for document in some] for some in found]

    def _rows(self) -> QuerySet[Message]:
        rows = Message.objects.using(self._conversation._state.db)
        return rows.filter(conversation=self._conversation, origin=Origin.SAID)
