"""LangGraph's tables, distributed by the conversation: each statement names it, and joins stay on its node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from langgraph.checkpoint.base import empty_checkpoint

from chatmemory.contrib.langgraph.models import Checkpoint, Namespace
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.models import Conversation
from tests.support.kept_names import where_names_are_kept

pytestmark = [pytest.mark.django_db(transaction=True), where_names_are_kept]

THREAD: Any = {"configurable": {"thread_id": "t"}}


def put(saver: DjangoSaver, thread_id: str) -> None:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": ["tea"]}
    checkpoint["channel_versions"] = {"messages": "1"}
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    named = saver.put(config, checkpoint, {}, {"messages": "1"})
    saver.put_writes(named, [("messages", "more")], "task")


@pytest.fixture
def saver() -> DjangoSaver:
    """A saver with a checkpoint in each of two threads."""
    saver = DjangoSaver()
    for thread_id in ("t", "another"):
        put(saver, thread_id)
    return saver


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda saver: saver.get_tuple(THREAD), id="read"),
        pytest.param(lambda saver: list(saver.list(THREAD)), id="list"),
        pytest.param(lambda saver: put(saver, "t"), id="put"),
        pytest.param(lambda saver: saver.prune(["t"]), id="prune"),
        pytest.param(lambda saver: saver.delete_thread("t"), id="delete the thread"),
        pytest.param(lambda saver: Conversation.objects.named(None, "t").get().delete(), id="delete the conversation"),
    ],
)
def test_each_statement_of_a_thread_names_its_conversation(saver: DjangoSaver, act: Callable[[Any], Any]) -> None:
    key = Conversation.objects.named(None, "t").get().pk
    with CaptureQueriesContext(connection) as captured:
        act(saver)
    asked = [query["sql"] for query in captured.captured_queries if "chatmemory_langgraph_" in query["sql"]]
    assert asked
    assert [sql for sql in asked if str(key) not in sql and key.hex not in sql] == []


def test_the_threads_of_an_owner_are_joined_by_the_conversation(saver: DjangoSaver) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert len(list(saver.list(None))) == 2
    [joined] = [query["sql"] for query in captured.captured_queries if "JOIN" in query["sql"]]
    checkpoint, namespace = (f'"{model._meta.db_table}"."conversation_id"' for model in (Checkpoint, Namespace))
    assert f"{namespace} = ({checkpoint})" in joined
