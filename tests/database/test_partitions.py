"""Hash partitions of messages by conversation, on PostgreSQL.

With ``CHATMEMORY_TEST_PARTITIONS=1`` all tests run on such tables; ``.ci/run`` does so.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation, Message
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory
from tests.support.partitions import partition_messages

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the SQL is PostgreSQL's"),
]

PARTITIONS = 16


@pytest.fixture
def conversations() -> list[Conversation]:
    """Conversations that were there before the partitions."""
    made = [ConversationFactory.create(owner=None, window="messages", limit=3) for _ in range(40)]
    for conversation in made:
        conversation.memory.add(*[UserMessage(f"今日は {number}") for number in range(5)])
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # no table with checks to come can be altered
        if not is_partitioned():
            partition_messages()
    return made


def is_partitioned() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relkind FROM pg_class WHERE oid = 'chatmemory_message'::regclass")
        return cursor.fetchone() == ("p",)


def tables_of(plan: Any) -> set[str]:
    return {plan.get("Relation Name", "")}.union(*map(tables_of, plan.get("Plans", [])))


def test_what_is_stored_is_kept_and_goes_on(conversations: list[Conversation]) -> None:
    assert is_partitioned()
    for conversation in conversations:
        conversation.memory.add(AiMessage("answer"))
        conversation.memory.set([*conversation.memory.messages()[:1], UserMessage("続き")])
        assert [row.text for row in conversation.messages.history()] == [
            *(f"今日は {number}" for number in range(5)),
            "answer",
        ]
        assert [row.text for row in conversation.messages.retained()] == ["今日は 3", "続き"]
    assert list(verify()) == []
    assert len(set(Message.objects.values_list("pk", flat=True))) == Message.objects.count()
    used = Message.objects.extra(select={"part": "tableoid"}).values_list("part", flat=True)
    assert 8 < len(set(used)) <= PARTITIONS


def test_every_rule_of_the_table_is_there(conversations: list[Conversation]) -> None:
    row = conversations[0].messages.all()[0]
    elsewhere = {**vars(row), "id": None, "position": 9}
    elsewhere.pop("_state")
    for wrong in ({"position": 0}, {"type": "NOBODY"}, {"conversation_id": "00000000-0000-7000-8000-000000000000"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Message.objects.bulk_create([Message(**{**elsewhere, **wrong})])


def test_a_turn_asks_one_partition(conversations: list[Conversation]) -> None:
    conversation = conversations[7]
    with CaptureQueriesContext(connection) as captured:
        conversation.memory.add(UserMessage("Hello"))
        conversation.memory.messages()
        conversation.memory.add(AiMessage("Hello!"), idempotency_key="1")
    for query in captured.captured_queries:
        if not query["sql"].startswith(("SAVEPOINT", "RELEASE")):
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN (FORMAT JSON) " + query["sql"])
                [[plan]] = cursor.fetchall()
            plan = plan if isinstance(plan, list) else json.loads(plan)
            parts = {table for table in tables_of(plan[0]["Plan"]) if table.startswith("chatmemory_message_")}
            assert len(parts) <= 1, query["sql"]
