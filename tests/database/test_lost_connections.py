"""A process that loses its connections goes on: one call of a memory or an assistant may fail, the next does not.

Outside of requests nobody else closes a dead connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.utils import timezone

from chatmemory import AiMessage, MessageWindowChatMemory, UserMessage
from chatmemory.assistant import Assistant
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user, export_user
from chatmemory.recounting import recount
from chatmemory.retention import purge_conversations, purge_evicted, purge_keys
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.lost_connections import Calls, failed_twice, has_connections

pytestmark = pytest.mark.django_db(transaction=True)

ID = "1"


def _memory() -> Calls:
    memory = ConversationFactory(owner=None, memory_id=ID).memory
    memory.add(UserMessage("Hi"), AiMessage("Hello"))
    stored = MessageWindowChatMemory(id=ID, max_messages=9, store=DjangoChatMemoryStore())
    return {
        "messages": memory.messages,
        "add": lambda: memory.add(UserMessage("Hi")),
        "add with a key": lambda: memory.add(UserMessage("Hi"), idempotency_key="1"),
        "set": lambda: memory.set([UserMessage("Hi")]),
        "clear": memory.clear,
        "at": lambda: memory.at(1),
        "set_window": lambda: memory.set_window(limit=3),
        "set_window of a model": lambda: memory.set_window(model="gpt-4"),
        "try_window": lambda: memory.try_window(limit=2),
        "to_format": lambda: memory.to_format("openai"),
        "amessages": memory.amessages,
        "aadd": partial(memory.aadd, UserMessage("Hi")),
        "aset": partial(memory.aset, [UserMessage("Hi")]),
        "aclear": memory.aclear,
        "aat": partial(memory.aat, 1),
        "aset_window": partial(memory.aset_window, limit=3),
        "atry_window": partial(memory.atry_window, limit=2),
        "ato_format": partial(memory.ato_format, "openai"),
        "messages of a store": stored.messages,
        "add to a store": lambda: stored.add(UserMessage("Hi")),
        "amessages of a store": stored.amessages,
        "aadd to a store": partial(stored.aadd, UserMessage("Hi")),
        "aset of a store": partial(stored.aset, [UserMessage("Hi")]),
        "aclear of a store": stored.aclear,
    }


def _assistant() -> Calls:
    conversation = ConversationFactory(owner=None, memory_id=ID)
    assistant = Assistant(
        lambda messages, tools: AiMessage("Hello"), memory=lambda key: Conversation.objects.get(pk=key).memory
    )
    assistant.chat(conversation.pk, "Hi", idempotency_key="1")

    async def stream() -> None:
        assert [event async for event in assistant.astream(conversation.pk, "Hi")]

    return {
        "chat": lambda: assistant.chat(conversation.pk, "Hi"),
        "chat again": lambda: assistant.chat(conversation.pk, "Hi", idempotency_key="1"),
        "stream": lambda: list(assistant.stream(conversation.pk, "Hi")),
        "interrupt": lambda: assistant.interrupt(conversation.pk),
        "achat": partial(assistant.achat, conversation.pk, "Hi"),
        "astream": stream,
        "ainterrupt": partial(assistant.ainterrupt, conversation.pk),
    }


def _maintenance() -> Calls:
    user = UserFactory()
    memory = ConversationFactory(owner=user, memory_id=ID, window="messages", limit=1).memory
    memory.add(UserMessage("Hi"), AiMessage("Hello"), idempotency_key="1")
    now = timezone.now()
    return {
        "verify": lambda: list(verify()),
        "recount": lambda: list(recount(model="gpt-4")),
        "export_user": lambda: list(export_user(user)),
        "purge_evicted": lambda: list(purge_evicted(now)),
        "purge_keys": lambda: list(purge_keys(now)),
        "purge_conversations": lambda: list(purge_conversations(now)),
        "erase_user": lambda: erase_user(user, how="anonymise"),
    }


DOORS: dict[str, Callable[[], Calls]] = {"memory": _memory, "assistant": _assistant, "maintenance": _maintenance}


@has_connections
@pytest.mark.parametrize("door", DOORS)
def test_the_call_after_the_one_that_failed_works(door: str) -> None:
    assert failed_twice(DOORS[door]()) == []


def test_a_connection_that_is_alive_stays_after_an_error() -> None:
    """An error of a statement may be a lost connection, and mostly is not."""
    memory = _memory()
    before = connection.connection
    with pytest.raises((ProgrammingError, OperationalError)), connection.cursor() as cursor:
        cursor.execute("SELECT no_such_column FROM no_such_table")
    assert connection.errors_occurred
    assert memory["messages"]() == [UserMessage("Hi"), AiMessage("Hello")]
    assert connection.connection is before
    assert not connection.errors_occurred


def test_a_transaction_of_the_caller_keeps_its_connection() -> None:
    """What is lost with it only the caller can do again."""
    memory = _memory()
    with transaction.atomic():
        before = connection.connection
        with pytest.raises((ProgrammingError, OperationalError)), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column FROM no_such_table")
        memory["add"]()
        assert connection.connection is before
        transaction.set_rollback(True)
    assert memory["messages"]() == [UserMessage("Hi"), AiMessage("Hello")]
