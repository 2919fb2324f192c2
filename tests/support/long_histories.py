"""Long conversations, and how much work of the database something takes, whatever the computer does beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.utils import timezone

from chatmemory.models import ORDER_STEP, Conversation, Message
from tests.support.factories import ConversationFactory

__all__ = ["conversation_of", "row", "sqlite_steps"]


def conversation_of(size: int) -> Conversation:
    """A conversation of ``size`` messages, of which a window of twenty retains the last."""
    moment = timezone.now()
    made = ConversationFactory(window="messages", limit=20)
    Message.objects.bulk_create((row(made, position, size, moment) for position in range(size)), batch_size=2000)
    Conversation.objects.filter(pk=made.pk).update(
        version=size, next_position=size, message_count=size, retained_count=20, retained_tokens=180
    )
    return made


def row(conversation: Conversation, position: int, size: int, moment: Any) -> Message:
    leaves = position < size - 20
    return Message(
        conversation=conversation,
        position=position,
        type="USER",
        text=f"message number {position} with some words",
        token_count=9,
        memory_order=position * ORDER_STEP,
        added_in=position + 1,
        evicted_in=position + 21 if leaves else None,
        evicted_at=moment if leaves else None,
        eviction_reason="window" if leaves else "",
        created_at=moment,
    )


def sqlite_steps(work: Callable[[], Any]) -> int:
    """Return how many hundreds of steps SQLite's machine takes for ``work``: the same in each run."""
    hundreds = 0

    def count() -> int:
        nonlocal hundreds
        hundreds += 1
        return 0

    connection.connection.set_progress_handler(count, 100)
    try:
        work()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return hundreds
