"""Replay the requests of many conversations, as they were, and with other windows.

Each function yields after every conversation, so that the caller can show progress or stop. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from chatmemory.capabilities import RECALL_HITS, Question, RecallFigures, hook_of_search
from chatmemory.conf import prices_of
from chatmemory.core.asynchronous import as_async_iterator, as_async_read
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import loads
from chatmemory.database.operations.replay import (
    FIGURES,
    REPLAYED,
    Recalling,
    Replay,
    RequestFigures,
    check_variant,
)
from chatmemory.database.operations.replay import replay as replay_one
from chatmemory.database.reading import on_primary, pages
from chatmemory.models import Conversation, Message, Origin, WindowSettings

__all__ = [
    "FIGURES",
    "MOST_AT_ONCE",
    "REPLAYED",
    "Question",
    "RecallFigures",
    "Replay",
    "Replayed",
    "areplay",
    "read_questions",
    "replay",
]

MOST_AT_ONCE = 10_000
"""The maximum number of messages of a conversation that a page or a request replays."""

_MILLION = 1_000_000
_NOTHING = RecallFigures()


@dataclass(frozen=True, kw_only=True)
class Replayed(RequestFigures):
    """The figures of the requests of conversations with one window."""

    conversations: int = 0

    cost: Decimal = Decimal(0)
    """The price of the input of the requests whose model is in ``PRICES``."""

    priced_requests: int = 0
    """The number of requests whose model is in ``PRICES``."""

    recall: RecallFigures = _NOTHING
    """What searches would have found; zeros if this was not asked for."""

    def __add__(self, other: Replayed) -> Replayed:
        return Replayed(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def replay(
    conversations: QuerySet[Conversation] | None = None,
    variants: Sequence[WindowSettings | None] = (None,),
    *,
    recall: bool = False,
    hits: int = RECALL_HITS,
    questions: Collection[Question] = (),
) -> Iterator[list[Replayed]]:
    """Replay ``conversations``. Yield a list of figures for each, one item for each variant, in the order of
    ``variants``.

    Args:
        conversations: the conversations; by default all.
        variants: the settings of the windows from the start; missing settings are those of the conversation. None means
            what really happened.
        recall: also search for what the windows had lost, for each user message that was answered.
        hits: the maximum number of hits of one search.
        questions: questions about the conversations, which are searched for, too.

    Raises:
        RuntimeError: ``recall`` is true, and no app that searches is installed.
        TypeError: a setting is unknown or is ``model``, because a replay uses stored token counts.
        ValueError: a setting is invalid; or ``hits`` is too large, when the first conversation is replayed.
    """
    for settings in variants:
        check_variant(settings or {})
    search = hook_of_search("replay_recall", "recall=True") if recall else None
    asked: dict[UUID, list[Question]] = {}
    for question in questions:
        asked.setdefault(question.conversation, []).append(question)

    def recall_for(conversation: Conversation) -> Recalling | None:
        return search and partial(search, hits=hits, questions=asked.get(conversation.pk, ()))

    return _replay(on_primary(conversations), variants, recall_for)


areplay = as_async_iterator(replay)
"""Async version of ``replay``."""


def _replay(
    conversations: QuerySet[Conversation],
    variants: Sequence[WindowSettings | None],
    recall_for: Callable[[Conversation], Recalling | None],
) -> Iterator[list[Replayed]]:
    for page in pages(conversations):
        for conversation in page:
            try:
                figures = replay_one(conversation, variants, recall_for(conversation))
            except Conversation.DoesNotExist:  # it has been erased
                continue
            yield [_account(conversation.model, one) for one in figures]


def _account(model: str, figures: Replay) -> Replayed:
    prices = prices_of(model, datetime.now(UTC).date())
    cost = Decimal(0)
    if prices is not None:
        full, cached = (Decimal(str(prices.get(name, prices["input"]))) for name in ("input", "cache_read"))
        cost = (figures.full_price_tokens * full + figures.cacheable_tokens * cached) / _MILLION
    shared = {field.name: getattr(figures, field.name) for field in fields(RequestFigures)}
    return Replayed(
        **shared,
        conversations=1,
        cost=cost,
        priced_requests=figures.requests if prices is not None else 0,
        recall=figures.recall or _NOTHING,
    )


_REQUIRED = ("conversation", "question", "positions")
_KEYS = (*_REQUIRED, "at")


def read_questions(lines: Iterable[str], conversations: QuerySet[Conversation]) -> list[Question]:
    """Return the questions of a file with one JSON object on each line. Blank lines are skipped.

    Args:
        lines: the lines of the file.
        conversations: the conversations that questions may be about.

    Raises:
        InvalidValueError: a line is invalid; the error contains its number.
    """
    found: list[Question] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_question(loads(line), conversations))
        except InvalidValueError as error:
            raise InvalidValueError("line %(number)s: %(problem)s", number=number, problem=str(error)) from None
    return found


aread_questions = as_async_read(read_questions)
"""Async version of ``read_questions``."""


def _question(data: Any, conversations: QuerySet[Conversation]) -> Question:
    if not isinstance(data, dict):
        raise InvalidValueError("expected a JSON object")
    for name in data:
        if name not in _KEYS:
            raise InvalidValueError("%(name)s is unknown; the keys are %(keys)s", name=name, keys=", ".join(_KEYS))
    for name in _REQUIRED:
        if name not in data:
            raise InvalidValueError("%(name)s is missing", name=name)
    text = data["question"]
    if not isinstance(text, str) or not text.strip():
        raise InvalidValueError("question must be text that is not blank")
    conversation = _conversation(data["conversation"], conversations)
    end = conversation.next_position
    at = data.get("at", end)
    if not _is_position(at) or at > end:
        raise InvalidValueError("at must be a position from 0 to %(end)s, but is: %(at)r", end=end, at=at)
    return Question(conversation.pk, text, _positions(data["positions"], at, conversation), at)


def _conversation(name: Any, conversations: QuerySet[Conversation]) -> Conversation:
    """Return the conversation with a primary key or a ``memory_id``."""
    if not isinstance(name, str):
        raise InvalidValueError("conversation must be the text of a UUID or a memory_id")
    named = Q(memory_id=name)
    with suppress(ValueError):
        named |= Q(pk=UUID(name))
    found = list(conversations.filter(named)[:2])
    if not found:
        raise InvalidValueError("there is no conversation %(name)r among these", name=name)
    if len(found) > 1:
        raise InvalidValueError("several owners have a conversation %(name)r; use its UUID", name=name)
    return found[0]


def _positions(given: Any, at: int, conversation: Conversation) -> frozenset[int]:
    if not isinstance(given, list) or not given or not all(map(_is_position, given)):
        raise InvalidValueError("positions must be a list of at least one position")
    for position in given:
        if position >= at:
            raise InvalidValueError(
                "positions must be before the question, at %(at)s, but one is: %(position)s", at=at, position=position
            )
    rows = Message.objects.using(conversation._state.db).filter(conversation=conversation, origin=Origin.SAID)
    there = set(rows.filter(position__in=given).values_list("position", flat=True))
    for position in given:
        if position not in there:
            raise InvalidValueError("nothing was said at position %(position)s", position=position)
    return frozenset(given)


def _is_position(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
