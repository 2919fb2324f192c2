"""The request before an answer: the messages that the model had when it wrote it.

The request before an answer has the memory of the version before, and what the answer's own change added before it and
kept. A placeholder that came in that change is not among them: it took its place when the change was over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from django.db.models import Q

from chatmemory.core.messages import ChatMessageType
from chatmemory.database.prefix import fresh_rows, is_at_the_end, prefix_version_at
from chatmemory.models import Conversation, Message, MessageQuerySet, Origin

__all__ = ["ANSWERS", "fresh_rows_of_request", "is_answer", "lost_with_answer", "request_before", "requests_among"]

_NEAR = 1000

ANSWERS = Q(type=ChatMessageType.AI.value, origin=Origin.SAID)
"""The condition of the rows for which :func:`is_answer` is true."""


class PastRow(Protocol):
    """The columns of a row that tell who said the message."""

    @property
    def type(self) -> str: ...

    @property
    def origin(self) -> str: ...


Row = TypeVar("Row", bound=PastRow)
Kept = TypeVar("Kept")


def is_answer(row: PastRow) -> bool:
    """Return whether the model said the message."""
    return row.type == ChatMessageType.AI and row.origin == Origin.SAID


def requests_among(added: Iterable[Row], kept: Callable[[Row], Kept | None]) -> Iterator[list[Kept]]:
    """Yield, for each answer among the messages of one change, what joined its request since the answer before.

    Args:
        added: the messages of the change, by position.
        kept: returns the message as the memory has it after the change; None if it is not there, or is a placeholder.
    """
    joined: list[Kept] = []
    for row in added:
        if is_answer(row):
            yield joined
            joined = []
        found = kept(row)
        if found is not None:
            joined.append(found)


def request_before(answer: Message) -> MessageQuerySet:
    """Return the rows of the request before ``answer``, in memory order."""
    version = answer.added_in
    there = Q(evicted_in__isnull=True) | Q(evicted_in__gte=version)
    before = Q(added_in__lt=version)
    joined = Q(added_in=version) & ~Q(evicted_in=version) & ~Q(origin=Origin.CLEARED)
    rows: MessageQuerySet = answer.conversation.messages.filter(there, before | joined, position__lt=answer.position)
    return rows.order_by("memory_order")


def lost_with_answer(answer: Message) -> MessageQuerySet:
    """Return the rows that came before ``answer`` in its own change and left in it: nobody recorded what came first.

    Of a change that brought thousands only the last thousand before the answer are looked at.
    """
    version = answer.added_in
    near = (answer.position - _NEAR, answer.position - 1)
    rows: MessageQuerySet = answer.conversation.messages.filter(
        position__range=near, added_in=version, evicted_in=version
    )
    return rows.exclude(origin=Origin.CLEARED).order_by("position")


def fresh_rows_of_request(conversation: Conversation, answer: Message, rows: list[Message]) -> list[int]:
    """Return the indexes of the ``rows`` of a request before which nothing had changed since they were added."""
    before = answer.added_in - 1
    moved = any(row.added_in == answer.added_in and not is_at_the_end(row) for row in rows)
    if moved:
        return fresh_rows(rows, answer.added_in)
    return fresh_rows(rows, prefix_version_at(conversation, before, last=answer.position))
