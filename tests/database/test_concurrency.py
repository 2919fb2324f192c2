"""Many writers, one conversation: nothing lost, nothing twice, everything in order."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier

import pytest
from django.db import connection, connections, transaction

from chatmemory import MessageWindowChatMemory, UserMessage
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_conversations import check_invariants
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)


def check_nothing_lost(conversation: Conversation, writers: list[str], each: int) -> None:
    said = [row.text for row in conversation.messages.history()]
    assert len(said) == len(writers) * each
    for name in writers:
        assert [text for text in said if text.startswith(f"{name} ")] == [f"{name} {number}" for number in range(each)]
    positions = list(conversation.messages.retained().values_list("position", flat=True))
    assert positions == list(range(len(said) - len(positions), len(said)))
    check_invariants(conversation)


@pytest.mark.slow
def test_processes_lose_nothing() -> None:
    """They even race to make the conversation."""
    writers = [f"p{number}" for number in range(4)]
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings.base",
        "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
    }
    processes = [
        subprocess.Popen([sys.executable, "-m", "tests.support.writer", "shared", name, "30"], env=environment)
        for name in writers
    ]
    assert [process.wait(timeout=300) for process in processes] == [0] * len(writers)
    check_nothing_lost(Conversation.objects.get(), writers, 30)


@pytest.mark.slow
@pytest.mark.parametrize("through", ["conversation", "store"])
def test_threads_lose_nothing(through: str) -> None:
    conversation = ConversationFactory(owner=None, window="messages", limit=5)

    def write(name: str) -> None:
        memory = (
            Conversation.objects.get(pk=conversation.pk).memory
            if through == "conversation"
            else MessageWindowChatMemory(id=conversation.memory_id, max_messages=5, store=DjangoChatMemoryStore())
        )
        for number in range(20):
            memory.add(UserMessage(f"{name} {number}"))
        connections.close_all()

    writers = [f"t{number}" for number in range(4)]
    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(write, writers))
    check_nothing_lost(conversation, writers, 20)


@pytest.mark.parametrize("transactions", [False, True], ids=["on their own", "in transactions of the caller"])
def test_threads_that_make_the_same_memory_lose_nothing(transactions: bool) -> None:
    ready = Barrier(6)

    def write(name: str) -> None:
        for number in range(5):
            memory = MessageWindowChatMemory(id=f"new {number}", max_messages=50, store=DjangoChatMemoryStore())
            ready.wait(timeout=60)
            with transaction.atomic() if transactions else nullcontext():
                memory.add(UserMessage(name))
        connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, [f"t{number}" for number in range(6)]))
    assert [conversation.message_count for conversation in Conversation.objects.all()] == [6] * 5


def test_the_same_key_from_two_threads_adds_once() -> None:
    conversation = ConversationFactory()

    def write(_: int) -> list[int]:
        own = Conversation.objects.get(pk=conversation.pk)
        positions = [row.position for row in own.memory.add(UserMessage("once"), idempotency_key="k").added]
        connections.close_all()
        return positions

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [[0]] * 4
    check_invariants(conversation)
