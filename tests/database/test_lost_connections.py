"""A process that loses its connections goes on: one call of a memory or an adapter may fail, the next does not.

Outside of requests nobody else closes a dead connection.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from agent_framework import Message as FrameworkMessage
from asgiref.sync import sync_to_async
from django.db import Error, OperationalError, ProgrammingError, connection, connections, transaction
from django.utils import timezone
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from llama_index.core.base.llms import types as li
from llama_index.core.storage.chat_store.base_db import MessageStatus
from pydantic_ai.messages import ModelRequest, UserPromptPart

from chatmemory import AiMessage, MessageWindowChatMemory, UserMessage
from chatmemory.assistant import Assistant
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user, export_user
from chatmemory.recounting import recount
from chatmemory.retention import purge_conversations, purge_evicted, purge_keys
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.support.cutting import cut_all_others, wait_until_ended
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)

has_connections = pytest.mark.skipif(connection.vendor == "sqlite", reason="a file has no connections to lose")

ID = "1"
THREAD: Any = {"configurable": {"thread_id": ID, "checkpoint_ns": ""}}

Calls = dict[str, Callable[[], Any]]


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


def _langchain() -> Calls:
    history = DjangoChatMessageHistory(ID)
    history.add_messages([HumanMessage("Hi")])
    return {
        "messages": lambda: history.messages,
        "add_messages": lambda: history.add_messages([HumanMessage("Hi")]),
        "clear": history.clear,
        "aget_messages": history.aget_messages,
        "aadd_messages": partial(history.aadd_messages, [HumanMessage("Hi")]),
        "aclear": history.aclear,
    }


def _langgraph() -> Calls:
    saver = DjangoSaver()
    saver.put(THREAD, empty_checkpoint(), {"run_id": "1"}, {})

    def put() -> Any:
        return saver.put(THREAD, create_checkpoint(empty_checkpoint(), None, 1), {}, {})

    async def alist() -> list[Any]:
        return [found async for found in saver.alist(THREAD)]

    [latest] = saver.list(THREAD)
    return {
        "messages": lambda: saver.messages(ID),
        "get_tuple": lambda: saver.get_tuple(THREAD),
        "list": lambda: list(saver.list(THREAD)),
        "put": put,
        "put_writes": lambda: saver.put_writes(latest.config, [("channel", 1)], "task"),
        "delete_thread": lambda: saver.delete_thread(ID),
        "delete_for_runs": lambda: saver.delete_for_runs(["1"]),
        "copy_thread": lambda: saver.copy_thread("none", "2"),
        "prune": lambda: saver.prune([ID]),
        "amessages": partial(saver.amessages, ID),
        "aget_tuple": partial(saver.aget_tuple, THREAD),
        "alist": alist,
        "aput": partial(saver.aput, THREAD, create_checkpoint(empty_checkpoint(), None, 1), {}, {}),
        "aput_writes": partial(saver.aput_writes, latest.config, [("channel", 1)], "task"),
        "adelete_thread": partial(saver.adelete_thread, ID),
        "adelete_for_runs": partial(saver.adelete_for_runs, ["1"]),
        "acopy_thread": partial(saver.acopy_thread, "none", "2"),
        "aprune": partial(saver.aprune, [ID]),
    }


def _llama_index() -> Calls:
    store, said = DjangoChatStore(), li.ChatMessage(role="user", content="Hi")
    store.add_message(ID, said)
    return {
        "set_messages": lambda: store.set_messages(ID, [said]),
        "get_messages": lambda: store.get_messages(ID),
        "add_message": lambda: store.add_message(ID, said),
        "delete_messages": lambda: store.delete_messages(ID),
        "delete_message": lambda: store.delete_message(ID, 0),
        "delete_last_message": lambda: store.delete_last_message(ID),
        "get_keys": store.get_keys,
        "aset_messages": partial(store.aset_messages, ID, [said]),
        "aget_messages": partial(store.aget_messages, ID),
        "async_add_message": partial(store.async_add_message, ID, said),
        "adelete_messages": partial(store.adelete_messages, ID),
        "adelete_message": partial(store.adelete_message, ID, 0),
        "adelete_last_message": partial(store.adelete_last_message, ID),
        "aget_keys": store.aget_keys,
    }


def _llama_index_async() -> Calls:
    store, said = DjangoAsyncChatStore(), li.ChatMessage(role="user", content="Hi")
    DjangoChatStore().add_message(ID, said)
    return {
        "get_messages": partial(store.get_messages, ID),
        "count_messages": partial(store.count_messages, ID),
        "add_message": partial(store.add_message, ID, said),
        "add_messages": partial(store.add_messages, ID, [said]),
        "set_messages": partial(store.set_messages, ID, [said]),
        "delete_message": partial(store.delete_message, ID, 0),
        "delete_messages": partial(store.delete_messages, ID),
        "delete_oldest_messages": partial(store.delete_oldest_messages, ID, 1),
        "archive_oldest_messages": partial(store.archive_oldest_messages, ID, 1),
        "archived": partial(store.get_messages, ID, MessageStatus.ARCHIVED),
        "get_keys": store.get_keys,
    }


def _openai_agents() -> Calls:
    session = DjangoSession(ID)
    item: Any = {"role": "user", "content": "Hi"}
    asyncio.run(session.add_items([item]))
    return {
        "get_items": session.get_items,
        "add_items": partial(session.add_items, [item]),
        "pop_item": session.pop_item,
        "clear_session": session.clear_session,
    }


def _agent_framework() -> Calls:
    history, said = DjangoHistoryProvider(), FrameworkMessage("user", ["Hi"])
    asyncio.run(history.save_messages(ID, [said]))
    return {
        "get_messages": partial(history.get_messages, ID),
        "save_messages": partial(history.save_messages, ID, [said]),
    }


def _pydantic_ai() -> Calls:
    history, said = DjangoMessageHistory(ID), ModelRequest([UserPromptPart("Hi")])
    history.add([said])
    return {
        "messages": history.messages,
        "add": lambda: history.add([said]),
        "clear": history.clear,
        "amessages": history.amessages,
        "aadd": partial(history.aadd, [said]),
        "aclear": history.aclear,
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


DOORS: dict[str, Callable[[], Calls]] = {
    "memory": _memory,
    "assistant": _assistant,
    "LangChain": _langchain,
    "LangGraph": _langgraph,
    "LlamaIndex": _llama_index,
    "LlamaIndex, async": _llama_index_async,
    "Agents SDK": _openai_agents,
    "Agent Framework": _agent_framework,
    "Pydantic AI": _pydantic_ai,
    "maintenance": _maintenance,
}


def failed_twice(door: Calls) -> list[str]:
    """Make each call after its connections were cut, and once more; return what failed that second time, too."""
    failed = []

    async def all_of_them() -> None:
        for name, call in door.items():
            await sync_to_async(connections.close_all)()
            await sync_to_async(Conversation.objects.count)()  # a connection to lose
            await asyncio.to_thread(_cut)
            for is_last in (False, True):
                try:
                    await (call() if inspect.iscoroutinefunction(call) else sync_to_async(call)())
                except Error:
                    if is_last:
                        failed.append(name)
        await sync_to_async(connections.close_all)()

    connection.close()
    asyncio.run(all_of_them())
    return failed


def _cut() -> None:
    try:
        wait_until_ended(cut_all_others())
    finally:
        connection.close()


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
