"""Frameworks call sync methods in threads of their own: no connection stays open there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from llama_index.core.base.llms.types import ChatMessage as LlamaMessage
from llama_index.core.memory import ChatMemoryBuffer
from pydantic_ai.messages import ModelRequest

from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoChatStore
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from tests.support.cutting import others, wait_until_ended

pytestmark = pytest.mark.django_db(transaction=True)

SAID = LlamaMessage(role="user", content="Hi")
CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
ON_CHECKPOINT: Any = {"configurable": {**CONFIG["configurable"], "checkpoint_id": "1"}}

# Every sync method that asks the database.
CALLS: dict[type, dict[str, Callable[[Any], object]]] = {
    DjangoChatMessageHistory: {
        "messages": lambda history: history.messages,
        "add_messages": lambda history: history.add_messages([HumanMessage("Hi")]),
        "clear": lambda history: history.clear(),
    },
    DjangoMessageHistory: {
        "messages": lambda history: history.messages(),
        "add": lambda history: history.add([ModelRequest.user_text_prompt("Hi")]),
        "clear": lambda history: history.clear(),
    },
    DjangoChatStore: {
        "set_messages": lambda store: store.set_messages("t", [SAID]),
        "get_messages": lambda store: store.get_messages("t"),
        "add_message": lambda store: store.add_message("t", SAID),
        "delete_messages": lambda store: store.delete_messages("t"),
        "delete_message": lambda store: store.delete_message("t", 0),
        "delete_last_message": lambda store: store.delete_last_message("t"),
        "get_keys": lambda store: store.get_keys(),
    },
    DjangoSaver: {
        "messages": lambda saver: saver.messages("t"),
        "get_tuple": lambda saver: saver.get_tuple(CONFIG),
        "list": lambda saver: list(saver.list(CONFIG)),
        "get_delta_channel_history": lambda saver: saver.get_delta_channel_history(config=CONFIG, channels=["x"]),
        "put": lambda saver: saver.put(CONFIG, empty_checkpoint(), {}, {}),
        "put_writes": lambda saver: saver.put_writes(ON_CHECKPOINT, [("x", 1)], "task"),
        "delete_thread": lambda saver: saver.delete_thread("t"),
        "delete_for_runs": lambda saver: saver.delete_for_runs(["r"]),
        "copy_thread": lambda saver: saver.copy_thread("t", "u"),
        "prune": lambda saver: saver.prune(["t"]),
    },
}


@pytest.mark.parametrize("adapter", CALLS)
def test_each_sync_method_with_a_twin_is_called_here(adapter: Any) -> None:
    names = {name for name in vars(adapter) if {f"a{name}", f"aget_{name}", f"async_{name}"} & set(vars(adapter))}
    assert names == set(CALLS[adapter])


@pytest.mark.parametrize(
    ("adapter", "name"), [pytest.param(adapter, name, id=name) for adapter in CALLS for name in CALLS[adapter]]
)
def test_a_thread_is_left_without_a_connection_if_it_had_none(adapter: Any, name: str) -> None:
    made = adapter() if adapter in (DjangoChatStore, DjangoSaver) else adapter("t")

    def work() -> Any:
        CALLS[adapter][name](made)
        return connections["default"].connection

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() is None


def test_a_connection_that_the_thread_had_stays() -> None:
    store = DjangoChatStore()

    def work() -> bool:
        with connections["default"].cursor():
            opened = connections["default"].connection
        try:
            store.add_message("t", SAID)
            return opened is not None and connections["default"].connection is opened
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result()


@pytest.mark.slow
def test_a_buffer_of_llama_indexs_leaves_nothing_open_on_the_server() -> None:
    buffer = ChatMemoryBuffer.from_defaults(chat_store=DjangoChatStore(), chat_store_key="t")
    loop = asyncio.new_event_loop()
    before = set(others())

    async def work() -> None:
        await asyncio.gather(*(buffer.aput_messages([SAID]) for _ in range(8)))
        await asyncio.gather(*(buffer.aget() for _ in range(8)))

    with ThreadPoolExecutor(8) as pool:  # its threads live on while the server is asked
        loop.set_default_executor(pool)
        try:
            loop.run_until_complete(work())
            wait_until_ended(set(others()) - before)
        finally:
            loop.close()
    assert len(buffer.get_all()) == 8
