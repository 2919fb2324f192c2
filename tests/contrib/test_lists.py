"""Where a list is expected, one string, or one item, is an error: its characters, or keys, are nobody's list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from chatmemory import InMemoryChatMemoryStore, SingleSlotChatMemoryStore, UserMessage, messages_to_json
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.models import Checkpoint
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.responses import to_responses
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG: Any = {"configurable": {"thread_id": "x"}}


def _memory() -> Any:
    return Conversation.objects.get().memory


TAKERS: dict[str, Callable[[Any], object]] = {
    "memory.set": lambda given: _memory().set(given),
    "memory.try_window": lambda given: _memory().try_window(limit=5, messages=given),
    "DjangoChatMemoryStore": lambda given: DjangoChatMemoryStore().update_messages("x", given),
    "InMemoryChatMemoryStore": lambda given: InMemoryChatMemoryStore().update_messages("x", given),
    "SingleSlotChatMemoryStore": lambda given: SingleSlotChatMemoryStore("x").update_messages("x", given),
    "messages_to_json": messages_to_json,
    "to_openai": to_openai,
    "to_anthropic": to_anthropic,
    "to_gemini": to_gemini,
    "to_responses": to_responses,
    "Agent Framework": lambda given: async_to_sync(DjangoHistoryProvider().save_messages)("x", given),
    "LangChain": lambda given: DjangoChatMessageHistory("x").add_messages(given),
    "LlamaIndex, set": lambda given: DjangoChatStore().set_messages("x", given),
    "LlamaIndex, set, async": lambda given: async_to_sync(DjangoAsyncChatStore().set_messages)("x", given),
    "LlamaIndex, add": lambda given: async_to_sync(DjangoAsyncChatStore().add_messages)("x", given),
    "OpenAI Agents": lambda given: async_to_sync(DjangoSession("x").add_items)(given),
    "Pydantic AI": lambda given: DjangoMessageHistory("x").add(given),
    "prune": lambda given: DjangoSaver().prune(given),
    "prune, delete": lambda given: DjangoSaver().prune(given, strategy="delete"),
    "delete_for_runs": lambda given: DjangoSaver().delete_for_runs(given),
    "get_delta_channel_history": lambda given: DjangoSaver().get_delta_channel_history(config=CONFIG, channels=given),
}


@pytest.mark.parametrize("given", ["xy", "", {"role": "user"}, {}, b"xy", 1])
@pytest.mark.parametrize("name", TAKERS)
def test_what_is_no_list_is_refused_and_changes_nothing(name: str, given: Any) -> None:
    conversation = Conversation.objects.create(memory_id="x")
    conversation.memory.add(UserMessage("Hi"))
    Checkpoint.objects.create(
        **conversation.langgraph_namespaces.create(name="").place,
        checkpoint_id="1",
        run_id="x",
        state=b"",
        metadata=b"",
        versions={},
    )
    with pytest.raises(TypeError, match="must be a list, but is: "):
        TAKERS[name](given)
    assert conversation.memory.messages() == [UserMessage("Hi")]
    assert Checkpoint.objects.count() == 1
