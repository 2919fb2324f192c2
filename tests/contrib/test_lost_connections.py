"""A process that loses its connections goes on: one call of an adapter may fail, the next does not.

Outside of requests nobody else closes a dead connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from agent_framework import Message as FrameworkMessage
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from llama_index.core.base.llms import types as li
from llama_index.core.storage.chat_store.base_db import MessageStatus
from pydantic_ai.messages import ModelRequest, UserPromptPart

from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from tests.support.lost_connections import Calls, failed_twice, has_connections

pytestmark = pytest.mark.django_db(transaction=True)

ID = "1"
THREAD: Any = {"configurable": {"thread_id": ID, "checkpoint_ns": ""}}


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


DOORS: dict[str, Callable[[], Calls]] = {
    "LangChain": _langchain,
    "LangGraph": _langgraph,
    "LlamaIndex": _llama_index,
    "LlamaIndex, async": _llama_index_async,
    "Agents SDK": _openai_agents,
    "Agent Framework": _agent_framework,
    "Pydantic AI": _pydantic_ai,
}


@has_connections
@pytest.mark.parametrize("door", DOORS)
def test_the_call_after_the_one_that_failed_works(door: str) -> None:
    assert failed_twice(DOORS[door]()) == []
