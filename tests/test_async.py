"""The async twins: the same methods, and transactions that a cancelled task leaves whole."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import ChatMemory, UserMessage
from chatmemory.messages import ChatMessage
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.factories import ConversationFactory
from tests.test_changes import check_invariants, users

pytestmark = pytest.mark.django_db(transaction=True)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def whole() -> Any:
        try:
            return await work
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(whole())


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ChatMemory, ["add", "set", "messages", "clear"]),
        (Conversation, ["add_messages", "set_window", "try_window", "memory_at", "to_format"]),
        (DjangoChatMemoryStore, ["get_messages", "update_messages", "delete_messages"]),
    ],
)
def test_every_method_has_a_twin_with_the_same_arguments(kind: type, names: list[str]) -> None:
    for name in names:
        method, twin = getattr(kind, name), getattr(kind, f"a{name}")
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(method) == inspect.signature(twin)


def test_a_memory() -> None:
    async def chat() -> list[ChatMessage]:
        conversation = await Conversation.objects.acreate(window="messages", limit=3)
        memory = conversation.memory
        await memory.aadd(*users(1, 2))
        await asyncio.gather(*(memory.aadd(*users(number)) for number in range(3, 8)))
        assert len(await memory.amessages()) == 3
        assert len(await conversation.ato_format("openai")) == 3
        await memory.aclear()
        await memory.aset(users(9))
        return await memory.amessages()

    assert run(chat()) == users(9)
    assert Conversation.objects.get().message_count == 7


def test_a_conversation() -> None:
    async def use() -> None:
        conversation = await Conversation.objects.acreate(window="messages", limit=3)
        for _ in range(2):
            change = await conversation.aadd_messages(users(1, 2, 3), idempotency_key="1")
            assert change.memory.version == 1
        trial = await conversation.atry_window(limit=2, messages=users(4))
        assert [row.text for row in trial.retained] == ["u3", "u4"]
        assert [row.position for row in (await conversation.aset_window(limit=1)).evicted] == [0, 1]
        assert await conversation.amemory_at(1) == users(1, 2, 3)
        with pytest.raises(ValueError, match="from 0 to 2"):
            await conversation.amemory_at(3)

    run(use())


def test_a_store() -> None:
    async def use() -> None:
        store = DjangoChatMemoryStore()
        await store.aupdate_messages("1", users(1))
        assert await store.aget_messages("1") == users(1)
        await store.adelete_messages("1")
        assert await store.aget_messages("1") == []

    run(use())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(yields=st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_a_cancelled_task_leaves_a_change_done_or_not_done(yields: list[int]) -> None:
    conversation = ConversationFactory(owner=None, window="messages", limit=4)

    async def use() -> None:
        for number, times in enumerate(yields):
            batch = [UserMessage(f"{number} {part}") for part in range(3)]
            task = asyncio.create_task(conversation.memory.aadd(*batch))
            for _ in range(times):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # In the same thread as those before: it comes after all that still ran when its task was cancelled.
        await conversation.memory.aadd(UserMessage("last"))

    run(use())
    check_invariants(conversation)
    said = [row.text for row in conversation.messages.order_by("position")]
    kept = [number for number in range(len(yields)) if f"{number} 0" in said]
    assert said == [*(f"{number} {part}" for number in kept for part in range(3)), "last"]
