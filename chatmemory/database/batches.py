"""The rows of conversations, in parts that one statement can name or read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar

from django.db import router
from django.db.models import Model, QuerySet
from django.db.models.functions import Coalesce, Length

from chatmemory.conf import setting
from chatmemory.database.retry import retry
from chatmemory.models import Conversation, ConversationQuerySet, Message, MessageQuerySet

__all__ = [
    "CHARS",
    "ROWS_AT_ONCE",
    "chunks",
    "in_parts",
    "is_bounded",
    "on_primary",
    "pages",
    "read_in_parts",
    "rows_of",
]

ROWS_AT_ONCE = 500
"""The most rows that one statement names: SQLite bounds its parameters, MariaDB its bytes."""

CHARS = Length("text") + Coalesce(Length("payload"), 0) + Coalesce(Length("native"), 0)
"""The number of characters of a message, counted by the database."""

_ROWS = 500
_CHARS = 1_000_000

T = TypeVar("T")
M = TypeVar("M", bound=Model)


def rows_of(conversation: Conversation) -> MessageQuerySet:
    """Return the messages of a conversation, on the database that it was read from."""
    return Message.objects.using(conversation._state.db).filter(conversation=conversation)


def is_bounded(count: int, chars: int) -> bool:
    """Return whether one request may read so many messages with so many characters."""
    return bool(count <= setting("MAX_MEMORY_MESSAGES") and chars <= setting("MAX_MEMORY_CHARS"))


def on_primary(conversations: QuerySet[Conversation] | None) -> ConversationQuerySet:
    """Return ``conversations`` (None for all) on the database that is written to, unless ``using()`` named another."""
    chosen: Any = Conversation.objects.all() if conversations is None else conversations
    rows: ConversationQuerySet = chosen.using(chosen._db or router.db_for_write(Conversation))
    return rows


def chunks(rows: list[T], size: int = ROWS_AT_ONCE) -> Iterator[list[T]]:
    """Yield ``rows`` in parts that one statement can name."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def pages(rows: QuerySet[M], size: int = 100, by: str = "pk") -> Iterator[list[M]]:
    """Yield every row once, in pages by a key.

    ``iterator()`` would be one statement, but MariaDB's driver fetches all its rows at once, and PostgreSQL's opens a
    server-side cursor: behind a pooler in transaction mode that reads the rows of other processes.

    Args:
        rows: in any order. Rows may be added and deleted meanwhile.
        size: the rows of a page, above zero.
        by: the field that orders the rows; each has another value.
    """
    ordered = rows.order_by(by)
    page = retry(rows.db, lambda: list(ordered[:size]))
    while page:
        last = getattr(page[-1], by)
        yield page
        if len(page) < size:
            return
        following = ordered.filter(**{f"{by}__gt": last})[:size]
        page = retry(rows.db, partial(list, following))


def in_parts(rows: QuerySet[M], size: int = 200) -> Iterator[M]:
    """Yield every row once, read in :func:`pages`."""
    for page in pages(rows, size):
        yield from page


def read_in_parts(rows: QuerySet[Message]) -> Iterator[Message]:
    """Yield the rows of one conversation by position, read in parts that stay small however long the messages are."""
    after = -1
    while True:
        sizes = list(rows.filter(position__gt=after).order_by("position").values_list("position", CHARS)[:_ROWS])
        chars = 0
        for index, (position, length) in enumerate(sizes):
            chars += length
            if index + 1 == len(sizes) or chars + sizes[index + 1][1] > _CHARS:
                yield from rows.filter(position__gt=after, position__lte=position).order_by("position")
                after, chars = position, 0
        if len(sizes) < _ROWS:
            return
