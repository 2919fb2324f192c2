"""What a search would have found for past requests, among the messages that the window had lost.

A *request* here is the one that got the first answer to a user message, and its memory is replayed as in
``chatmemory.replaying``. The search is by relevance, for the words of the user message, among the earlier messages that
the memory no longer contained. The weights of words come from what had been said before the user message, because a
search then would have known no more. Nothing is written, and no model is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from chatmemory.capabilities import Question, RecallFigures
from chatmemory.contrib.search.corpus import Corpus
from chatmemory.contrib.search.postings import bitmap_of
from chatmemory.contrib.search.query import Query, any_word
from chatmemory.contrib.search.searching import MOST_HITS, most_relevant, with_corpus
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.operations.replay import PastMemory, memories_before
from chatmemory.database.reading import is_answer, read_in_parts
from chatmemory.models import Conversation, Message, Origin, WindowSettings


def replay_recall(
    conversation: Conversation,
    variants: Sequence[WindowSettings | None],
    *,
    hits: int,
    questions: Sequence[Question],
) -> list[RecallFigures]:
    """Return the figures of each variant: see ``Capability.replay_recall``.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        TypeError: a setting is unknown, or a replay does not take it.
        ValueError: a setting is invalid, or ``hits`` is not between 1 and ``MOST_HITS``.
    """
    if not 1 <= hits <= MOST_HITS:
        raise ValueError(f"hits must be between 1 and {MOST_HITS}, but is: {hits}")
    here = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
    return with_corpus(here, _Conversation(conversation, variants, hits, questions).figures)


@dataclass(frozen=True)
class _Request:
    query: Query

    said_at: int
    """The position of the user message."""


class _Conversation:
    """The requests and the questions of a conversation."""

    def __init__(
        self,
        conversation: Conversation,
        variants: Sequence[WindowSettings | None],
        hits: int,
        questions: Sequence[Question],
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
        return [RecallFigures(unread=corpus.unread, **some) for some in counts]

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
