"""Every conversation once, in parts that stay small, however many there are and whatever is done to them meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from django.db import router
from django.db.models import Model, QuerySet

from chatmemory.hot_path import Key
from chatmemory.ledger import Target
from chatmemory.models import Conversation, ConversationQuerySet

__all__ = ["in_parts", "on_primary", "pages", "target_on"]

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


def target_on(conversation: Conversation, precondition: Callable[[Conversation], None] | None = None) -> Target:
    """The conversation to change, on the very database that it was read from."""
    key = Key.of(conversation, conversation._state.db or "default")
    return Target(key, instance=conversation, precondition=precondition)
