"""How the databases run the statements of a turn: by an index, whatever the length of the history."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.assistant import Assistant
from chatmemory.database.statements import Key, statements
from chatmemory.models import ORDER_STEP, Conversation, Message
from chatmemory.recounting import recount
from chatmemory.retention import purge_evicted
from chatmemory.stores import DjangoChatMemoryStore
from tests.support.assistants import Speaker
from tests.support.factories import ConversationFactory

# ANALYZE ends the transaction on MariaDB.
pytestmark = pytest.mark.django_db(transaction=True)

LENGTH = 3_000
RETAINED = 20

_ABOUT_NOTHING = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "SET SESSION")  # the last one begins a connection


@pytest.fixture
def conversation() -> Conversation:
    """One of two long conversations, in tables that the database has statistics of."""
    now = timezone.now()
    for _ in range(2):
        made = ConversationFactory(owner=None, window="messages", limit=RETAINED)
        Message.objects.bulk_create(
            [
                Message(
                    conversation=made,
                    position=position,
                    type="USER",
                    text=f"message {position}",
                    token_count=3,
                    memory_order=position * ORDER_STEP,
                    added_in=position + 1,
                    created_at=now,
                    evicted_in=position + 1 + RETAINED if position < LENGTH - RETAINED else None,
                    evicted_at=now if position < LENGTH - RETAINED else None,
                    eviction_reason="window" if position < LENGTH - RETAINED else "",
                )
                for position in range(LENGTH)
            ],
            batch_size=500,
        )
    with connection.cursor() as cursor:
        for table in (Message._meta.db_table, Conversation._meta.db_table):
            cursor.execute({"mysql": f"ANALYZE TABLE {table}"}.get(connection.vendor, f"ANALYZE {table}"))
            if connection.vendor == "mysql":
                cursor.fetchall()
    return made


def indexes_used(sql: str, params: Any) -> tuple[set[str], set[str]]:
    """The names of indexes that a statement is run by, and the tables that are read from end to end."""
    explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN (FORMAT JSON) ", "mysql": "EXPLAIN "}
    with connection.cursor() as cursor:
        cursor.execute(explain[connection.vendor] + sql, params)
        rows = cursor.fetchall()
        columns = [column[0] for column in cursor.description]
    indexes: set[str] = set()
    whole: set[str] = set()
    if connection.vendor == "sqlite":
        for *_, step in rows:
            words = step.split()
            if "INDEX" in words:
                indexes.add(words[words.index("INDEX") + 1])
            elif words[0] == "SCAN" and words[1].startswith("chatmemory"):
                whole.add(words[1])
    elif connection.vendor == "mysql":
        for row in (dict(zip(columns, row, strict=True)) for row in rows):
            indexes.add(row["key"])
            if row["type"] in ("ALL", "index") and not str(row["table"]).startswith("<"):
                whole.add(row["table"])
    else:
        plan = rows[0][0]
        pending = [step["Plan"] for step in (json.loads(plan) if isinstance(plan, str) else plan)]
        while pending:
            step = pending.pop()
            pending += step.get("Plans", [])
            indexes.add(step.get("Index Name", ""))
            if step["Node Type"] == "Seq Scan":
                whole.add(step["Relation Name"])
        indexes |= names_of_divided(indexes)
    return indexes, whole


def names_of_divided(partitions: set[str]) -> set[str]:
    """The names of the indexes or tables that these are partitions of, on PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT divided.relname FROM pg_inherits JOIN pg_class divided ON divided.oid = inhparent "
            "JOIN pg_class part ON part.oid = inhrelid WHERE part.relname = ANY(%s)",
            [list(partitions)],
        )
        return {name for (name,) in cursor.fetchall()}


@pytest.mark.parametrize("named", ["id", "memory_id"])
def test_memory_and_its_old_end_are_read_by_their_index(conversation: Conversation, named: str) -> None:
    by_id = Key.of(conversation, "default")
    key = by_id if named == "id" else Key.named(None, conversation.memory_id, "default")
    sql = statements("default")
    within = key.values[:1] if key.column == "located" else key.values
    for statement, params in (
        (sql.memory[key.column], key.values),
        (sql.snapshot[key.column], (*within, 4, *key.values)),
        (sql.oldest, (*by_id.values, 8, 0)),
    ):
        indexes, whole = indexes_used(statement, params)
        assert "chatmemory_msg_memory" in indexes, statement
        assert Message._meta.db_table not in whole, statement


def test_a_page_of_history_is_read_by_its_index(conversation: Conversation) -> None:
    page = conversation.messages.history().filter(position__gt=1_000)[:50]
    indexes, whole = indexes_used(*page.query.sql_with_params())
    # SQLite has no name for the index of a constraint but a number.
    assert indexes & {"chatmemory_msg_position_unique", "sqlite_autoindex_chatmemory_message_1"}
    assert not whole


def _add(conversation: Conversation) -> None:
    conversation.memory.add(*[UserMessage(f"今日はいい天気 {number}") for number in range(6)])
    for _ in range(2):
        conversation.memory.add(AiMessage("answer"), idempotency_key="1")


def _rewrite(conversation: Conversation) -> None:
    conversation.memory.set([SystemMessage("Be brief."), *conversation.memory.messages()[-2:]])
    conversation.memory.at(1)
    conversation.memory.to_format("openai")


def _change_window(conversation: Conversation) -> None:
    conversation.memory.try_window(limit=30)
    conversation.memory.set_window(limit=30, model="gpt-4")
    list(recount(Conversation.objects.filter(pk=conversation.pk), model="gpt-4o"))


def _pin(conversation: Conversation) -> None:
    position = conversation.messages.retained()[0].position
    conversation.memory.pin(position)
    conversation.memory.unpin(position)


def _take_turns(conversation: Conversation) -> None:
    assistant = Assistant(Speaker(lambda messages: iter([AiMessage("Yes.")])))
    for key in ("2", "2", None):
        assistant.chat(conversation, "今日は?", idempotency_key=key)


def _read_what_was_left_out(conversation: Conversation) -> None:
    row = conversation.messages.defer("text", "payload").all()[0]
    assert row.text
    row.refresh_from_db()


def _forget(conversation: Conversation) -> None:
    conversation.memory.compact(lambda messages, previous: "Weather.", keep=0)
    conversation.memory.clear()
    list(purge_evicted(timezone.now(), Conversation.objects.filter(pk=conversation.pk)))


@pytest.mark.parametrize(
    "act",
    [_add, _rewrite, _change_window, _pin, _take_turns, _read_what_was_left_out, _forget],
    ids=lambda act: act.__name__,
)
def test_every_statement_names_its_conversation_by_its_id(act: Callable[[Conversation], None]) -> None:
    """Tables may be distributed by it: a statement or a subselect that does not name it would ask every machine."""
    conversation = ConversationFactory(owner=None, window="tokens", limit=60)
    conversation.memory.add(*[UserMessage(f"今日は {number}") for number in range(3)])
    statements = statements_of(lambda: act(conversation))
    names = (conversation.pk.hex, str(conversation.pk))
    assert [sql for sql in statements if sum(map(sql.count, names)) < max(1, sql.count("SELECT"))] == []


def test_every_statement_of_a_store_names_its_conversation() -> None:
    store = DjangoChatMemoryStore()
    conversation = ConversationFactory(owner=None, window="tokens", limit=60)

    def use() -> None:
        store.update_messages(conversation.memory_id, [UserMessage("from elsewhere")])
        store.get_messages(conversation.memory_id)
        store.delete_messages(conversation.memory_id)

    names = (conversation.pk.hex, str(conversation.pk), conversation.memory_id)
    about = [sql for sql in statements_of(use) if "chatmemory_citus_name" not in sql]
    assert [sql for sql in about if not any(name in sql for name in names)] == []


def statements_of(act: Callable[[], object]) -> list[str]:
    """The statements that ``act`` ran about anything but transactions."""
    with CaptureQueriesContext(connection) as captured:
        act()
    sqls = [query["sql"] for query in captured.captured_queries]
    found = [sql for sql in sqls if not sql.startswith(_ABOUT_NOTHING)]
    assert found
    return found
