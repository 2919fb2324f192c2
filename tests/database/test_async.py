"""The async twins: the same methods, and transactions that a cancelled task leaves whole."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.backends.signals import connection_created
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    ChatMemory,
    ChatMessage,
    UserMessage,
    personal_data,
    recounting,
    replaying,
    retention,
    verification,
)
from chatmemory.assistant import Assistant
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.conversation_memory import ConversationMemory
from chatmemory.models import Conversation
from chatmemory.personal_data import aerase_user, aexport_user
from chatmemory.recounting import arecount
from chatmemory.retention import apurge_conversations, apurge_evicted, apurge_keys
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import averify
from tests.database.test_conversations import check_invariants, users
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def whole() -> Any:
        try:
            return await work
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(whole())


# What asks no database.
WITHOUT = {"save", "delete", "target", "window"}


@pytest.mark.parametrize("kind", [ChatMemory, ConversationMemory, DjangoChatMemoryStore, Assistant])
def test_every_method_has_a_twin_with_the_same_arguments(kind: type) -> None:
    methods = {
        name: method
        for one in kind.__mro__
        if one.__module__.startswith("chatmemory")
        for name, method in vars(one).items()
        if inspect.isfunction(method) and not name.startswith("_") and name not in WITHOUT | WITHOUT_IN.get(kind, set())
    }
    twins = {name for name in methods if name.startswith("a") and name[1:] in methods}
    assert twins
    for name in methods.keys() - twins:
        method, twin = methods[name], methods[f"a{name}"]
        assert inspect.iscoroutinefunction(twin) or inspect.isasyncgenfunction(twin)
        assert inspect.signature(method).parameters == inspect.signature(twin).parameters


WITHOUT_IN: dict[type, set[str]] = {Assistant: {"memory", "forget", "missing_key"}}


@pytest.mark.parametrize("module", [personal_data, recounting, replaying, retention, verification])
def test_every_function_has_a_twin_with_the_same_arguments(module: ModuleType) -> None:
    functions = {
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    twins = {name for name in functions if name.startswith("a") and name[1:] in functions}
    assert twins
    assert {name[1:] for name in twins} == functions - twins
    for name in functions - twins:
        method, twin = getattr(module, name), getattr(module, f"a{name}")
        assert inspect.signature(method).parameters == inspect.signature(twin).parameters


def test_a_memory() -> None:
    async def chat() -> list[ChatMessage]:
        conversation = await Conversation.objects.acreate(window="messages", limit=3)
        memory = conversation.memory
        await memory.aadd(*users(1, 2))
        await asyncio.gather(*(memory.aadd(*users(number)) for number in range(3, 8)))
        assert len(await memory.amessages()) == 3
        assert len(await conversation.memory.ato_format("openai")) == 3
        await memory.aclear()
        await memory.aset(users(9))
        return await memory.amessages()

    assert run(chat()) == users(9)
    assert Conversation.objects.get().message_count == 7


def test_a_conversation() -> None:
    async def use() -> None:
        conversation = await Conversation.objects.acreate(window="messages", limit=3)
        for _ in range(2):
            change = await conversation.memory.aadd(*users(1, 2, 3), idempotency_key="1")
            assert change.memory.version == 1
        trial = await conversation.memory.atry_window(limit=2, messages=users(4))
        assert [row.text for row in trial.retained] == ["u3", "u4"]
        assert [row.position for row in (await conversation.memory.aset_window(limit=1)).evicted] == [0, 1]
        assert await conversation.memory.aat(1) == users(1, 2, 3)
        with pytest.raises(ValueError, match="from 0 to 2"):
            await conversation.memory.aat(3)

    run(use())


def test_a_store() -> None:
    async def use() -> None:
        store = DjangoChatMemoryStore()
        await store.aupdate_messages("1", users(1))
        assert await store.aget_messages("1") == users(1)
        await store.adelete_messages("1")
        assert await store.aget_messages("1") == []

    run(use())


def test_a_store_that_applies_windows() -> None:
    async def use() -> None:
        store = DjangoChatMemoryStore()
        window = Window(kind=WindowKind.MESSAGES, limit=2)
        await store.aadd_to_window("1", users(1, 2, 3), window)
        assert await store.aget_window("1", window) == users(2, 3)
        await store.aset_window("1", users(4), window)
        assert await store.aget_messages("1") == users(4)

    run(use())


@pytest.mark.slow
def test_looking_after_the_data() -> None:
    async def use() -> None:
        user = await sync_to_async(UserFactory)()
        conversation = await Conversation.objects.acreate(owner=user, window="messages", limit=1, model="gpt-4")
        await conversation.memory.aadd(*users(1, 2), idempotency_key="1")
        assert [finding async for finding in averify()] == []
        assert sum([step.messages async for step in arecount(model="gpt-4o")]) == 2
        assert len([line async for line in aexport_user(user)]) == 5
        now = timezone.now()
        assert [step.messages async for step in apurge_evicted(now)] == [1]
        assert [step.keys async for step in apurge_keys(now)] == [1]
        assert (await aerase_user(user, how="anonymise")).conversations == 1
        assert [step.conversations async for step in apurge_conversations(timezone.now())] == [1]

    run(use())
    assert not Conversation.objects.exists()


def test_all_that_is_read_at_once_uses_one_connection() -> None:
    opened = []

    def note(connection: Any, **kwargs: Any) -> None:
        opened.append(connection)

    async def use() -> None:
        await sync_to_async(connections.close_all)()
        connection_created.connect(note)
        memory = conversation.memory
        await asyncio.gather(*(memory.amessages() for _ in range(5)), *(memory.aat(0) for _ in range(5)))

    conversation = ConversationFactory(owner=None)
    try:
        run(use())
    finally:
        connection_created.disconnect(note)
    assert len(opened) == 1


@pytest.mark.slow
@settings(max_examples=budget.examples(25), suppress_health_check=list(HealthCheck))
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
