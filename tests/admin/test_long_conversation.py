"""A long conversation opens in the admin with as many statements, and as much work of the database, as a short one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory
from tests.support.kept import kept
from tests.support.long_histories import conversation_of, sqlite_steps

pytestmark = pytest.mark.django_db

_QUERIES = ["", "?view=history", "?position={middle}", "?position=0"]


@pytest.fixture(scope="module")
def by_size(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[int, Conversation]]:
    """Conversations whose messages came one after the other. No test changes them, so they are made once."""
    with kept(django_db_blocker):
        yield {size: conversation_of(size) for size in (100, 1_000, 20_000)}


@pytest.fixture(scope="module")
def added_at_once(django_db_setup: None, django_db_blocker: Any) -> Iterator[list[Conversation]]:
    """Conversations with one version each."""
    with kept(django_db_blocker):
        made = [ConversationFactory(window="messages", limit=20) for _ in range(3)]
        for conversation, size in zip(made, (100, 250, 3_000), strict=True):
            conversation.memory.add(*[UserMessage(f"m{number}") for number in range(size)])
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("query", _QUERIES)
def test_a_long_conversation_takes_as_many_statements_as_a_short_one(
    admin_client: Any, query: str, by_size: dict[int, Conversation], django_assert_num_queries: Any
) -> None:
    _open(admin_client, by_size[100], query)  # what is read once by each process is read now
    with CaptureQueriesContext(connection) as captured:
        _open(admin_client, by_size[100], query)
    for size in (1_000, 20_000):
        with django_assert_num_queries(len(captured)):
            _open(admin_client, by_size[size], query)


@pytest.mark.slow
@pytest.mark.parametrize("query", _QUERIES)
def test_messages_added_at_once_take_two_statements_more_at_most(
    admin_client: Any, query: str, added_at_once: list[Conversation]
) -> None:
    """Where their version begins and ends is looked for far from the page."""
    _open(admin_client, added_at_once[0], query)  # what is read once by each process is read now
    counts = []
    for conversation in added_at_once:
        with CaptureQueriesContext(connection) as captured:
            _open(admin_client, conversation, query)
        counts.append(len(captured))
    assert max(counts) - min(counts) <= 2


@pytest.mark.slow
def test_what_came_long_after_a_message_left_it_is_found(admin_client: Any) -> None:
    conversation = conversation_of(2_000)
    conversation.messages.filter(position=5).update(evicted_in=1_950)
    page = _open(admin_client, conversation, "?position=5")
    assert "pushed out by message 1949" in page


@pytest.mark.slow
@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite says how many steps a query took")
@pytest.mark.parametrize("query", _QUERIES)
def test_a_long_conversation_costs_the_database_what_a_short_one_does(
    admin_client: Any, query: str, by_size: dict[int, Conversation]
) -> None:
    few = sqlite_steps(lambda: _open(admin_client, by_size[1_000], query))
    assert sqlite_steps(lambda: _open(admin_client, by_size[20_000], query)) < 2 * few


def _open(client: Any, conversation: Conversation, query: str) -> str:
    """Return the page of a conversation."""
    conversation.refresh_from_db()
    place = query.format(middle=conversation.next_position // 2)
    answer = client.get(f"/admin/chatmemory/conversation/{conversation.pk}/change/{place}")
    assert answer.status_code == 200
    return str(answer.content.decode())
