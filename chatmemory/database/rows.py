"""Every conversation once, in parts that stay small, however many there are and whatever is done to them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from django.db import router
from django.db.models import Model, QuerySet
from django.db.models.functions import Coalesce, Length

from chatmemory.models import Conversation, ConversationQuerySet, Message, MessageQuerySet

__all__ = ["chunks", "in_parts", "on_primary", "pages", "read_in_parts", "rows_of"]

T = TypeVar("T")

# SQLite bounds the parameters of a statement, MariaDB its bytes.
ROWS_AT_ONCE = 500

# What is read at once.
_ROWS = 500

_CHARS = 1_000_000


M = TypeVar("M", bound=Model)


def on_primary(conversations: QuerySet[Conversation] | None) -> ConversationQuerySet:
    """``conversations``, by default all, on the database that is written to unless ``using()`` named another."""
    chosen: Any = Conversation.objects.all() if conversations is None else conversations
    rows: ConversationQuerySet = chosen.using(chosen._db or router.db_for_write(Conversation))
    return rows


def pages(conversations: QuerySet[Conversation] | None, size: int = 100) -> Iterator[list[Conversation]]:
    """The rows by primary key, see :func:`on_primary`.

    Args:
        conversations: by default all.
        size: of a part, above zero.
    """
    rows = on_primary(conversations).order_by("pk")
    page = list(rows[:size])
    while page:
        last = page[-1].pk
        yield page
        page = list(rows.filter(pk__gt=last)[:size])


def in_parts(rows: QuerySet[M], size: int = 200) -> Iterator[M]:
    """Rows by primary key, a part at a time: MariaDB's ``iterator()`` would fetch them all at once."""
    part = list(rows.order_by("pk")[:size])
    while part:
        yield from part
        if len(part) < size:
            return
        part = list(rows.filter(pk__gt=part[-1].pk).order_by("pk")[:size])


def rows_of(conversation: Conversation) -> MessageQuerySet:
    """Its messages, on the database that it was read from."""
    return Message.objects.using(conversation._state.db).filter(conversation=conversation)


def chunks(rows: list[T]) -> Iterator[list[T]]:
    """``rows`` in parts that one statement can name."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


def read_in_parts(rows: QuerySet[Message]) -> Iterator[Message]:
    """The rows of one conversation by position, in parts that stay small however long the messages are."""
    size = Length("text") + Coalesce(Length("payload"), 0) + Coalesce(Length("native"), 0)
    after = -1
    while True:
        sizes = list(rows.filter(position__gt=after).order_by("position").values_list("position", size)[:_ROWS])
        chars = 0
        for index, (position, length) in enumerate(sizes):
            chars += length
            if index + 1 == len(sizes) or chars + sizes[index + 1][1] > _CHARS:
                yield from rows.filter(position__gt=after, position__lte=position).order_by("position")
                after, chars = position, 0
        if len(sizes) < _ROWS:
            return
