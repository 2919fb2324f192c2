"""REST beside a router that reads from a replica: what one has just said is there."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.database.test_conversations import LaggingReplica
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(databases=["default", "other"])


class LaggingConversations(LaggingReplica):
    """Users and sessions are where they are written."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "other" if model._meta.app_label == "chatmemory" else "default"


def test_without_history_a_memory_that_was_rewritten_meanwhile_is_read_where_it_is_written(
    api: Client, user: Any, settings: Any
) -> None:
    settings.CHATMEMORY = {"USERS": "all", "KEEP_HISTORY": False}
    settings.DATABASE_ROUTERS = [LaggingConversations()]
    conversation = Conversation.objects.using("default").create(owner=user, window="messages", limit=1)
    conversation.memory.add(UserMessage("first"))

    def meddle(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "memory_order" in sql and conversation.version == 1 and sql.startswith("SELECT"):
            conversation.version = 2
            Conversation.objects.using("default").get().memory.add(UserMessage("second"))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(meddle):
        memory = api.get(f"/api/conversations/{conversation.pk}/memory/?format=openai")
    assert [message["content"] for message in memory.json()["messages"]] == ["second"]


def test_a_turn_reads_nothing_from_a_replica_that_lags(api: Client, user: Any, settings: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=2)
    settings.DATABASE_ROUTERS = [LaggingConversations()]
    address = f"/api/conversations/{conversation.pk}/"
    for number in range(3):
        message = {"role": "user", "content": str(number)}
        answer = api.post(f"{address}messages/?format=openai", message, content_type="application/json")
        assert answer.status_code == 201, answer.content
    memory = api.get(f"{address}memory/?format=openai").json()
    assert [message["content"] for message in memory["messages"]] == ["1", "2"]
    assert api.get(address).json()["message_count"] == 3
    past = api.get(f"{address}memory/?at=1&format=openai").json()
    assert [message["content"] for message in past["messages"]] == ["0"]
    preview = api.post(f"{address}memory/preview/?format=openai", {"limit": 1}, content_type="application/json").json()
    assert len(preview["messages"]) == 1
    stored = api.get(f"/api/stores/{conversation.memory_id}/").json()
    assert len(stored) == 2
    assert api.get(f"{address}messages/2/?format=openai").json()["message"]["content"] == "2"
    changed = api.patch(address, {"title": "new", "limit": 1}, content_type="application/json")
    assert (changed.json()["title"], changed.json()["retained_count"]) == ("new", 1)
    assert changed["ETag"] == api.get(address)["ETag"]
    # Lists are the router's to send where it likes.
    assert api.get("/api/conversations/").json()["results"] == []
    assert Conversation.objects.using("default").get().message_count == 3
