"""Adapters show a summary as a user message in the place of the turns that it stands for."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from llama_index.core.base.llms import types as li
from llama_index.core.storage.chat_store.base_db import MessageStatus

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.llama_index import DjangoAsyncChatStore
from chatmemory.contrib.native_memory import valid_among
from chatmemory.database.change import Target
from chatmemory.database.operations.compact import apply_compaction
from chatmemory.database.operations.compaction_plan import plan_compaction
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.contrib.test_full_windows import (
    ID,
    WINDOW,
    AgentFramework,
    LangChain,
    LangGraph,
    LlamaIndex,
    OpenAiAgents,
    PydanticAi,
)

pytestmark = pytest.mark.django_db(transaction=True)

ADAPTERS = [LangChain, LangGraph, LlamaIndex, OpenAiAgents, PydanticAi, AgentFramework]
SUMMARY = "<summary>\nThey looked things up.\n</summary>"


def summarise() -> Conversation:
    """Put a summary in the place of all turns but the last, as another process would."""
    conversation = Conversation.objects.get(memory_id=ID)
    plan = plan_compaction(conversation, keep=0, summary_tokens=0)
    assert plan is not None
    assert apply_compaction(Target.of(conversation), plan, "They looked things up.") is not None
    return Conversation.objects.get()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_framework_gets_the_summary_and_goes_on(adapter: type[Any]) -> None:
    with_window = adapter()
    for number in range(3):
        with_window.add(with_window.turn(f"c{number}", "A leaf."))
    conversation = summarise()
    read = with_window.read()
    assert "They looked things up." in str(read[0])
    assert "Q c2" in str(read[1])
    assert not any("Q c0" in str(message) for message in read)
    with_window.add(with_window.turn("c3", "A leaf."))
    read = with_window.read()
    assert "They looked things up." in str(read[0])
    assert "A c3" in str(read[-1])
    said = [row.text for row in conversation.messages.history() if row.type == "USER"]
    assert said == ["Q c0", "Q c1", "Q c2", "Q c3"]
    assert list(verify()) == []


def test_llama_index_finds_what_a_summary_stands_for_in_its_archive() -> None:
    adapter = LlamaIndex()
    for number in range(2):
        adapter.add(adapter.turn(f"c{number}", "A leaf."))
    summarise()
    store = DjangoAsyncChatStore(**WINDOW)
    archived = async_to_sync(store.get_messages)(ID, MessageStatus.ARCHIVED)
    assert [message.content for message in archived if message.role is li.MessageRole.USER] == ["Q c0"]


def test_a_result_that_comes_after_the_summary_of_its_call_is_left_out() -> None:
    conversation = Conversation.objects.create(memory_id=ID, window="messages", limit=50)
    call = AiMessage(None, [ToolExecutionRequest("late", "look_up", "{}")])
    conversation.memory.add(UserMessage("Q " * 50), call, UserMessage("Well?"))
    summarise()
    conversation.memory.add(ToolExecutionResultMessage("late", "look_up", "A leaf."))
    rows = list(conversation.messages.retained())
    valid = valid_among(rows, conversation.messages.all())
    assert [message.type.value for _, message in valid] == ["USER", "USER"]


def test_langchain4j_gets_the_summary_as_a_user_message() -> None:
    conversation = Conversation.objects.create(memory_id=ID, window="messages", limit=50)
    conversation.memory.add(UserMessage("Q " * 50), AiMessage("A"), UserMessage("Well?"))
    summarise()
    store = DjangoChatMemoryStore()
    assert [message.text for message in store.get_messages(ID)] == [SUMMARY, "Well?"]  # type: ignore[attr-defined]


def test_a_foreign_memory_that_writes_back_what_it_read_before_undoes_the_summary() -> None:
    conversation = Conversation.objects.create(memory_id=ID, window="messages", limit=50)
    conversation.memory.add(UserMessage("Q " * 50), AiMessage("A"), UserMessage("Well?"))
    store = DjangoChatMemoryStore()
    before = store.get_messages(ID)
    made = summarise()
    store.update_messages(ID, [*before, AiMessage("Yes")])
    assert store.get_messages(ID) == [*before, AiMessage("Yes")]
    texts = [row.text for row in made.messages.history()]
    assert texts.count("A") == 1
    assert {"Q " * 50, "A", "Well?", "Yes"} <= set(texts)
    assert conversation.memory.at(2)[0].text == SUMMARY  # type: ignore[attr-defined]
    assert list(verify()) == []
