"""An event loop that sync code runs within its transaction: no change waits for that transaction for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from agent_framework import Message as FrameworkMessage
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.db.transaction import TransactionManagementError
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from llama_index.core.base.llms.types import ChatMessage as LlamaMessage
from pydantic_ai.messages import ModelRequest

from chatmemory import AiMessage, MessageWindowChatMemory, ToolExecutionRequest, UserMessage
from chatmemory.assistant import Assistant, Tool
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

SAID = LlamaMessage(role="user", content="Hi")
CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

Change = Callable[[Conversation], Coroutine[Any, Any, Any]]


def chat(conversation: Conversation) -> Coroutine[Any, Any, Any]:
    return Assistant(lambda messages, tools: AiMessage("Hello"), memory=conversation.memory).achat("t", "Hi")


async def run_tool(conversation: Conversation) -> None:
    failed: list[Exception] = []

    def note() -> None:
        try:
            conversation.memory.add(UserMessage("Hi"))
        except TransactionManagementError as error:
            failed.append(error)

    await Tool(note).arun(ToolExecutionRequest("1", "note", "{}"))
    raise failed[0]


CHANGES: dict[str, Change] = {
    "memory": lambda conversation: conversation.memory.aadd(UserMessage("Hi")),
    "assistant": chat,
    "a tool": run_tool,
    "store": lambda _: MessageWindowChatMemory(id="t", max_messages=9, store=DjangoChatMemoryStore()).aclear(),
    "LangChain": lambda _: DjangoChatMessageHistory("t").aadd_messages([HumanMessage("Hi")]),
    "LangGraph": lambda _: DjangoSaver().aput(CONFIG, empty_checkpoint(), {}, {}),
    "LlamaIndex": lambda _: DjangoChatStore().async_add_message("t", SAID),
    "LlamaIndex's Memory": lambda _: DjangoAsyncChatStore().add_messages("t", [SAID]),
    "Agents SDK": lambda _: DjangoSession("t").add_items([{"role": "user", "content": "Hi"}]),
    "Agent Framework": lambda _: DjangoHistoryProvider().save_messages("t", [FrameworkMessage("user", ["Hi"])]),
    "Pydantic AI": lambda _: DjangoMessageHistory("t").aadd([ModelRequest.user_text_prompt("Hi")]),
}
if connection.vendor == "sqlite":  # there they wait one after the other, each as long as all of them elsewhere
    CHANGES = {"memory": CHANGES["memory"]}


@pytest.mark.usefixtures("short_wait_for_lock")
def test_that_locked_the_conversation_each_change_says_what_to_do() -> None:
    conversation = ConversationFactory(owner=None, memory_id="t")

    async def use() -> dict[str, Any]:
        found = await asyncio.gather(*(change(conversation) for change in CHANGES.values()), return_exceptions=True)
        await sync_to_async(connections.close_all)()
        return dict(zip(CHANGES, found, strict=True))

    with transaction.atomic():
        conversation.memory.add(UserMessage("And?"))
        found = asyncio.run(use())
    for name, error in found.items():
        assert isinstance(error, TransactionManagementError), (name, error)
        assert "instead of asyncio.run(…)" in str(error)
    assert conversation.memory.messages() == [UserMessage("And?")]


def test_that_locked_nothing_a_change_is_made() -> None:
    conversation = ConversationFactory(owner=None, memory_id="t")

    async def use() -> None:
        await conversation.memory.aadd(UserMessage("Hi"))
        await conversation.memory.aclear()
        await conversation.memory.aadd(UserMessage("Hello"))
        await sync_to_async(connections.close_all)()

    with transaction.atomic():
        asyncio.run(use())
        transaction.set_rollback(True)
    assert conversation.memory.messages() == [UserMessage("Hello")]
