"""The history of a conversation as versions: what came, what left and what was pinned in each, without texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple

from django.db.models import BooleanField, Case, Q, QuerySet, When

from chatmemory.core.entries import EvictionReason
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.connections import retry
from chatmemory.database.reading import is_answer, rows_of
from chatmemory.models import ORDER_STEP, Conversation, Origin
from chatmemory.models.message import OPEN, pins_until

_ROWS = 2000
_STATE = ("eviction_reason", "pins")
HAS_CALLS = Q(payload__contains='"toolExecutionRequests":[{')
"""The condition that a message calls tools. The database looks into the payload, so that it need not be read."""

_HOLDS_SUMMARY = Q(payload__contains='"type":"compaction"')


class PastMessage(NamedTuple):
    """A row of the history, without what it says."""

    position: int
    type: ChatMessageType
    token_count: int
    origin: str
    memory_order: int
    covers_from: int | None
    covers_to: int | None
    added_in: int
    evicted_in: int | None
    has_calls: bool
    holds_summary: bool

    @property
    def is_answer(self) -> bool:
        """Whether the model said the message."""
        return is_answer(self)


_SIZE = len(PastMessage._fields)


@dataclass(slots=True)
class Version:
    """One version of a memory: the differences from the version before."""

    added: list[PastMessage] = field(default_factory=list)
    """The messages that came, in the order of their positions."""

    gone: list[tuple[PastMessage, str]] = field(default_factory=list)
    """The messages that left, each with the reason."""

    pinned: list[tuple[PastMessage, bool]] = field(default_factory=list)
    """The messages that were pinned (True) or unpinned."""

    has_answers: bool = False
    """Whether any of ``added`` is an answer of the model."""

    has_results: bool = False
    """Whether any of ``added`` is a tool result."""

    is_rewrite: bool = False
    """Whether a rewrite made the version."""


def versions_of(conversation: Conversation) -> Iterator[Version]:
    """Yield the versions of a memory, up to that of ``conversation``, in order."""
    found: dict[int, Version] = {}
    numbers: list[int] = []

    def at(number: int) -> Version:
        if number not in found:
            found[number] = Version()
            heappush(numbers, number)
        return found[number]

    for past, reason, pins in _rows(conversation):
        while numbers and numbers[0] < past.added_in:  # positions and versions rise together
            yield found.pop(heappop(numbers))
        version = at(past.added_in)
        version.added.append(past)
        version.has_answers |= past.is_answer
        version.has_results |= past.type == ChatMessageType.TOOL_EXECUTION_RESULT
        # A copy at the end may be a question that was asked again.
        is_moved = past.origin == Origin.COPY and past.memory_order != past.position * ORDER_STEP
        version.is_rewrite |= past.origin == Origin.REWRITE or is_moved
        if past.evicted_in is not None and past.evicted_in <= conversation.version:
            version = at(past.evicted_in)
            version.gone.append((past, reason))
            version.is_rewrite |= reason == EvictionReason.REWRITTEN
        for pin in pins_until(pins, conversation.version).split():
            for number, holds in zip(pin.split(OPEN), (True, False), strict=False):
                if number:
                    at(int(number)).pinned.append((past, holds))
    while numbers:
        yield found.pop(heappop(numbers))


def _rows(conversation: Conversation) -> Iterator[tuple[PastMessage, str, str]]:
    """Yield the messages of a conversation by position, each with the reason and the pins of its row."""
    rows = rows_of(conversation).filter(added_in__lte=conversation.version).order_by("position")
    columns = rows.annotate(has_calls=_whether(HAS_CALLS), holds_summary=_whether(_HOLDS_SUMMARY)).values_list(
        *PastMessage._fields, *_STATE
    )
    after = -1
    while page := retry(rows.db, partial(_listed, columns.filter(position__gt=after)[:_ROWS])):
        for row in page:
            yield PastMessage(row[0], ChatMessageType(row[1]), *row[2:_SIZE]), *row[_SIZE:]
        after = page[-1][0]


def _whether(condition: Q) -> Case:
    return Case(When(condition, then=True), default=False, output_field=BooleanField())


def _listed(rows: QuerySet[Any, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list(rows)
