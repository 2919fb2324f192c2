"""A long conversation opens in the admin with as many statements, and as much work of the database, as a short one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory
from tests.support.long_histories import conversation_of, sqlite_steps

pytestmark = pytest.mark.django_db

_QUERIES = ["", "?view=history", "?position={middle}", "?position=0"]


@pytest.mark.parametrize("query", _QUERIES)
def test_a_long_conversation_takes_as_many_statements_as_a_short_one(
    admin_client: Any, query: str, django_assert_num_queries: Any
) -> None:
    conversations = [conversation_of(size) for size in (100, 1_000, 20_000)]
    _open(admin_client, conversations[0], query)  # what is read once by each process is read now
    with CaptureQueriesContext(connection) as captured:
        _open(admin_client, conversations[0], query)
    for conversation in conversations[1:]:
        with django_assert_num_queries(len(captured)):
            _open(admin_client, conversation, query)


@pytest.mark.parametrize("query", _QUERIES)
def test_messages_added_at_once_take_two_statements_more_at_most(admin_client: Any, query: str) -> None:
    """Where their version begins and ends is looked for far from the page."""
    counts = []
    for size in (100, 100, 250, 3_000):  # the first one warms up
        conversation = ConversationFactory(window="messages", limit=20)
        conversation.memory.add(*[UserMessage(f"m{number}") for number in range(size)])
        with CaptureQueriesContext(connection) as captured:
            _open(admin_client, conversation, query)
        counts.append(len(captured))
    assert max(counts[1:]) - min(counts[1:]) <= 2


def test_what_came_long_after_a_message_left_it_is_found(admin_client: Any) -> None:
    conversation = conversation_of(2_000)
    conversation.messages.filter(position=5).update(evicted_in=1_950)
    page = _open(admin_client, conversation, "?position=5")
    assert "pushed out by message 1949" in page


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite says how many steps a query took")
@pytest.mark.parametrize("query", _QUERIES)
def test_a_long_conversation_costs_the_database_what_a_short_one_does(admin_client: Any, query: str) -> None:
    short, long = (conversation_of(size) for size in (1_000, 20_000))
    few = sqlite_steps(lambda: _open(admin_client, short, query))
    assert sqlite_steps(lambda: _open(admin_client, long, query)) < 2 * few


def _open(client: Any, conversation: Conversation, query: str) -> str:
    """Return the page of a conversation."""
    conversation.refresh_from_db()
    place = query.format(middle=conversation.next_position // 2)
    answer = client.get(f"/admin/chatmemory/conversation/{conversation.pk}/change/{place}")
    assert answer.status_code == 200
    return str(answer.content.decode())
