"""A long conversation opens in the admin with as much work of the database as a short one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from chatmemory.models import ORDER_STEP, Conversation, Message
from tests.support.factories import ConversationFactory

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="only SQLite says how many steps a query took"),
]


def test_a_long_conversation_costs_the_database_what_a_short_one_does(admin_client: Any) -> None:
    """Steps of SQLite's machine are the same in each run, however busy the computer is."""
    short, long = (steps_to_open(admin_client, conversation_of(size)) for size in (1_000, 20_000))
    assert long < 2 * short


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


def steps_to_open(client: Any, conversation: Conversation) -> int:
    """Return how many hundreds of steps SQLite took for the conversation's page."""
    hundreds = 0

    def count() -> int:
        nonlocal hundreds
        hundreds += 1
        return 0

    connection.connection.set_progress_handler(count, 100)
    try:
        assert client.get(f"/admin/chatmemory/conversation/{conversation.pk}/change/").status_code == 200
    finally:
        connection.connection.set_progress_handler(None, 0)
    return hundreds
