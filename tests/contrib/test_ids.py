"""An empty ID would be one conversation for everybody who has none: it is refused, wherever an ID is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agent_framework import Message as FrameworkMessage
from asgiref.sync import async_to_sync
from langgraph.checkpoint.base import empty_checkpoint
from llama_index.core.base.llms.types import ChatMessage as LlamaMessage

from chatmemory import MessageWindowChatMemory, UserMessage
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore

pytestmark = pytest.mark.django_db(transaction=True)

SAID = LlamaMessage(role="user", content="Hi")


def _config(thread_id: Any, **more: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **more}}


def _memory(id: Any) -> MessageWindowChatMemory:
    return MessageWindowChatMemory(id=id, max_messages=3, store=DjangoChatMemoryStore())


USES: dict[str, Callable[[Any], object]] = {
    "Agent Framework, get": lambda id: async_to_sync(DjangoHistoryProvider().get_messages)(id),
    "Agent Framework, save": lambda id: async_to_sync(DjangoHistoryProvider().save_messages)(
        id, [FrameworkMessage("user", ["Hi"])]
    ),
    "LangChain": DjangoChatMessageHistory,
    "OpenAI Agents": DjangoSession,
    "Pydantic AI": DjangoMessageHistory,
    "LlamaIndex, get": lambda id: DjangoChatStore().get_messages(id),
    "LlamaIndex, add": lambda id: DjangoChatStore().add_message(id, SAID),
    "LlamaIndex, set": lambda id: DjangoChatStore().set_messages(id, [SAID]),
    "LlamaIndex, delete": lambda id: DjangoChatStore().delete_messages(id),
    "LlamaIndex, async": lambda id: async_to_sync(DjangoAsyncChatStore().add_message)(id, SAID),
    "LlamaIndex, async get": lambda id: async_to_sync(DjangoAsyncChatStore().get_messages)(id),
    "LangGraph, messages": lambda id: DjangoSaver().messages(id),
    "LangGraph, get": lambda id: DjangoSaver().get_tuple(_config(id)),
    "LangGraph, list": lambda id: list(DjangoSaver().list({"configurable": {"thread_id": id}})),
    "LangGraph, put": lambda id: DjangoSaver().put(_config(id), empty_checkpoint(), {}, {}),
    "LangGraph, writes": lambda id: DjangoSaver().put_writes(_config(id, checkpoint_id="1"), [("x", 1)], "task"),
    "LangGraph, delta": lambda id: DjangoSaver().get_delta_channel_history(config=_config(id), channels=["x"]),
    "LangGraph, delete": lambda id: DjangoSaver().delete_thread(id),
    "LangGraph, prune": lambda id: DjangoSaver().prune([id]),
    "LangGraph, copy from": lambda id: DjangoSaver().copy_thread(id, "u"),
    "LangGraph, copy to": lambda id: DjangoSaver().copy_thread("t", id),
    "store, get": lambda id: DjangoChatMemoryStore().get_messages(id),
    "store, update": lambda id: DjangoChatMemoryStore().update_messages(id, [UserMessage("Hi")]),
    "store, delete": lambda id: DjangoChatMemoryStore().delete_messages(id),
    "memory, read": lambda id: _memory(id).messages(),
    "memory, add": lambda id: _memory(id).add(UserMessage("Hi")),
    "conversation": lambda id: Conversation.objects.create(memory_id=id),
    "conversation, found or made": lambda id: Conversation.objects.get_or_create(memory_id=id),
}


@pytest.mark.parametrize("id", ["", None, "x" * 256], ids=["empty", "none", "long"])
@pytest.mark.parametrize("name", USES)
def test_what_names_no_conversation_is_refused(name: str, id: Any) -> None:
    saver = DjangoSaver()
    saver.put(_config("t"), empty_checkpoint(), {}, {})
    with pytest.raises(ValueError, match=r"\bid\b|memory_id"):
        USES[name](id)
    assert Conversation.objects.count() == 1
