"""Adapters show placeholders in the place of cleared tool results, and their windows give up whole turns."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Content
from agent_framework import Message as FrameworkMessage
from asgiref.sync import async_to_sync
from langchain_core import messages as lc
from llama_index.core.base.llms import types as li
from llama_index.core.storage.chat_store.base_db import MessageStatus
from pydantic_ai import messages as pa

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.native_memory import NativeMemory, valid_rows
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.models import Conversation, Origin
from chatmemory.verification import verify
from tests.contrib.langgraph.test_messages import Steps

pytestmark = pytest.mark.django_db(transaction=True)

ID = "t"
WINDOW: Any = {"window": "tokens", "limit": 260, "low_water": 80, "whole_turns": True, "keep_tool_results": 1}
CLEARED = "[Old tool result cleared]"
LONG = "word " * 60

Result = tuple[str, str, bool]
"""The ID of the call that it answers, its text, and whether it is an error."""


class LangChain:
    has_errors = True

    def __init__(self) -> None:
        self.history = DjangoChatMessageHistory(ID, **WINDOW)

    def turn(self, id: str, text: str, *, is_error: bool = False) -> list[lc.BaseMessage]:
        result = lc.ToolMessage(text, tool_call_id=id, artifact={"a": 1}, status="error" if is_error else "success")
        calls = [lc.ToolCall(name="look_up", args={}, id=id)]
        return [lc.HumanMessage(f"Q {id}"), lc.AIMessage("", tool_calls=calls), result, lc.AIMessage(f"A {id}")]

    def add(self, messages: list[Any]) -> None:
        self.history.add_messages(messages)

    def read(self) -> list[Any]:
        return self.history.messages

    def results(self) -> list[Result]:
        found = [message for message in self.read() if isinstance(message, lc.ToolMessage)]
        return [(one.tool_call_id, str(one.text), one.status == "error") for one in found]


class LangGraph(LangChain):
    def __init__(self) -> None:
        self.saver = DjangoSaver(**WINDOW)
        self.steps = Steps(self.saver, ID)
        self.state: list[Any] = []

    def add(self, messages: list[Any]) -> None:
        for message in messages:
            message.id = f"said {len(self.state)}"  # as graphs do
            self.state.append(message)
        self.steps.put(self.state)

    def read(self) -> list[Any]:
        return list(self.saver.messages(ID))


class LlamaIndex:
    has_errors = False  # its messages cannot say it

    def __init__(self) -> None:
        self.store = DjangoChatStore(**WINDOW)

    def turn(self, id: str, text: str, *, is_error: bool = False) -> list[li.ChatMessage]:
        call = li.ToolCallBlock(tool_call_id=id, tool_name="look_up", tool_kwargs={})
        kept = {"tool_call_id": id, "of its own": 1}
        return [
            li.ChatMessage(f"Q {id}", role="user"),
            li.ChatMessage(role="assistant", blocks=[call]),
            li.ChatMessage(text, role="tool", additional_kwargs=kept),
            li.ChatMessage(f"A {id}", role="assistant"),
        ]

    def add(self, messages: list[Any]) -> None:
        async_to_sync(DjangoAsyncChatStore(**WINDOW).add_messages)(ID, messages)

    def read(self) -> list[Any]:
        return self.store.get_messages(ID)

    def results(self) -> list[Result]:
        found = [message for message in self.read() if message.role == "tool"]
        return [(one.additional_kwargs["tool_call_id"], one.content, False) for one in found]


class OpenAiAgents:
    has_errors = False  # its items cannot say it

    def __init__(self) -> None:
        self.session = DjangoSession(ID, **WINDOW)

    def turn(self, id: str, text: str, *, is_error: bool = False) -> list[Any]:
        return [
            {"role": "user", "content": f"Q {id}"},
            {"type": "function_call", "call_id": id, "name": "look_up", "arguments": "{}"},
            {"type": "function_call_output", "call_id": id, "output": text, "status": "completed"},
            {"role": "assistant", "content": f"A {id}"},
        ]

    def add(self, messages: list[Any]) -> None:
        async_to_sync(self.session.add_items)(messages)

    def read(self) -> list[Any]:
        return async_to_sync(self.session.get_items)()

    def results(self) -> list[Result]:
        found = [item for item in self.read() if item.get("type") == "function_call_output"]
        return [(item["call_id"], item["output"], False) for item in found]


class PydanticAi:
    has_errors = True

    def __init__(self) -> None:
        self.history = DjangoMessageHistory(ID, **WINDOW)

    def turn(self, id: str, text: str, *, is_error: bool = False) -> list[pa.ModelMessage]:
        outcome: Any = "failed" if is_error else "success"
        return [
            pa.ModelRequest([pa.UserPromptPart(f"Q {id}")]),
            pa.ModelResponse([pa.ToolCallPart("look_up", {}, id)]),
            pa.ModelRequest([pa.ToolReturnPart("look_up", text, id, metadata={"a": 1}, outcome=outcome)]),
            pa.ModelResponse([pa.TextPart(f"A {id}")]),
        ]

    def add(self, messages: list[Any]) -> None:
        self.history.add(messages)

    def read(self) -> list[Any]:
        return self.history.messages()

    def results(self) -> list[Result]:
        parts = [part for message in self.read() for part in message.parts]
        found = [part for part in parts if isinstance(part, pa.ToolReturnPart)]
        assert {part.tool_name for part in found} <= {"look_up"}
        return [(part.tool_call_id, str(part.content), part.outcome == "failed") for part in found]


class AgentFramework:
    has_errors = True

    def __init__(self) -> None:
        self.history = DjangoHistoryProvider(**WINDOW)

    def turn(self, id: str, text: str, *, is_error: bool = False) -> list[FrameworkMessage]:
        result = Content.from_function_result(id, result=text, exception="boom" if is_error else None)
        return [
            FrameworkMessage("user", [f"Q {id}"]),
            FrameworkMessage("assistant", [Content.from_function_call(id, "look_up", arguments="{}")]),
            FrameworkMessage("tool", [result], additional_properties={"a": 1}),
            FrameworkMessage("assistant", [f"A {id}"]),
        ]

    def add(self, messages: list[Any]) -> None:
        async_to_sync(self.history.save_messages)(ID, messages)

    def read(self) -> list[Any]:
        return [message.to_dict() for message in async_to_sync(self.history.get_messages)(ID)]

    def results(self) -> list[Result]:
        found = [content for message in self.read() if message["role"] == "tool" for content in message["contents"]]
        return [(one["call_id"], one["result"], "exception" in one) for one in found]


@pytest.fixture(params=[LangChain, LangGraph, LlamaIndex, OpenAiAgents, PydanticAi, AgentFramework])
def adapter(request: Any) -> Any:
    yield request.param()
    assert list(verify()) == []


def _rows() -> list[tuple[int, str]]:
    return [(row.pk, row.pins) for row in Conversation.objects.get().messages.retained()]


def test_a_placeholder_answers_the_call_of_the_result_that_was_cleared(adapter: Any) -> None:
    adapter.add(adapter.turn("a", LONG))
    adapter.add(adapter.turn("b", LONG, is_error=True))
    adapter.add(adapter.turn("c", LONG))
    results = [("a", CLEARED, False), ("b", CLEARED, adapter.has_errors), ("c", LONG, False)]
    assert adapter.results() == results
    made = Conversation.objects.get()
    assert (made.low_water, made.whole_turns, made.keep_tool_results) == (80, True, 1)
    assert made.messages.filter(origin=Origin.CLEARED).count() == 2
    assert made.messages.history().count() == 12


def test_whole_turns_leave_but_for_what_is_pinned(adapter: Any) -> None:
    adapter.add(adapter.turn("a", "short"))
    Conversation.objects.get().memory.pin(3)
    for id in "bcd":
        adapter.add(adapter.turn(id, "word " * 100))
    assert [id for id, *_ in adapter.results()] == ["c", "d"]
    assert [row.text for row in Conversation.objects.get().messages.retained()][:3] == ["Q a", "A a", "Q c"]
    assert [row.position for row in Conversation.objects.get().messages.pinned()] == [3]


def test_a_placeholder_that_is_taken_back_is_gone() -> None:
    """The SDK takes its items back one by one when it starts a turn again."""
    adapter = OpenAiAgents()
    adapter.add(adapter.turn("a", LONG)[:3])
    adapter.add([{"role": "user", "content": "Well?"}])
    Conversation.objects.get().memory.clear_tool_results(keep=0)
    popped = [async_to_sync(adapter.session.pop_item)() for _ in range(2)]
    assert popped[1] == {"type": "function_call_output", "call_id": "a", "output": CLEARED}
    assert [item.get("type") for item in adapter.read()] == [None, "function_call"]
    assert list(verify()) == []


def test_a_call_of_another_kind_than_a_function_goes_with_its_placeholder() -> None:
    """OpenAI refuses the result of a function for the call of a custom tool, and the other way round."""
    session = DjangoSession(ID, window="messages", limit=20)
    calls = [
        {"type": "custom_tool_call", "call_id": id, "name": "patch", "input": id, "id": f"ctc_{id}"} for id in "abc"
    ]
    results = [{"type": "custom_tool_call_output", "call_id": id, "output": LONG} for id in "abc"]
    question = {"role": "user", "content": "Q"}
    said: Any = [question, *calls[:2], *results[:2], question, calls[2], results[2], question]
    async_to_sync(session.add_items)(said)
    assert async_to_sync(session.get_items)() == said
    Conversation.objects.get().memory.clear_tool_results(keep=2)
    items: Any = async_to_sync(session.get_items)()
    kinds = [(item["type"], item["call_id"], item.get("output")) for item in items if "type" in item]
    assert kinds == [
        ("function_call", "a", None),
        ("function_call", "b", None),
        ("function_call_output", "a", CLEARED),
        ("function_call_output", "b", LONG),
        ("custom_tool_call", "c", None),
        ("custom_tool_call_output", "c", LONG),
    ]
    assert items[1]["arguments"] == '{"input": "a"}'
    assert items[-3:] == [calls[2], results[2], question]


class TestSavedAgain:
    """Frameworks that save the whole list, as it was read, leave every row as it is."""

    @pytest.fixture(params=[False, True])
    def store(self, request: Any) -> Any:
        return DjangoAsyncChatStore(**WINDOW) if request.param else DjangoChatStore(**WINDOW)

    @pytest.fixture
    def cleared(self) -> list[tuple[int, str]]:
        adapter = LlamaIndex()
        for id in "abc":
            adapter.add(adapter.turn(id, LONG))
        memory = Conversation.objects.get().memory
        memory.pin(3)
        memory.pin(7)
        memory.unpin(7)
        return _rows()

    def test_by_llama_index(self, store: Any, cleared: list[tuple[int, str]]) -> None:
        adapter, version = LlamaIndex(), Conversation.objects.get().version
        if isinstance(store, DjangoChatStore):
            store.set_messages(ID, store.get_messages(ID))
            assert Conversation.objects.get().version == version
            store.set_messages(ID, [*store.get_messages(ID), *adapter.turn("d", "short")])
        else:
            async_to_sync(store.set_messages)(ID, async_to_sync(store.get_messages)(ID))
            async_to_sync(store.add_messages)(ID, adapter.turn("d", "short"))
        assert _rows()[: len(cleared)] == cleared
        assert [pins for _key, pins in cleared].count("4-") == 1

    def test_what_llama_index_leaves_out_leaves_though_it_is_pinned(self, cleared: list[tuple[int, str]]) -> None:
        store = DjangoChatStore()
        store.set_messages(ID, store.get_messages(ID)[4:])
        made = Conversation.objects.get()
        assert not made.messages.pinned().exists()
        assert made.messages.get(position=3).eviction_reason == "rewritten"
        assert list(verify()) == []

    def test_by_langgraph(self) -> None:
        adapter = LangGraph()
        for id in "abc":
            adapter.add(adapter.turn(id, LONG))
        Conversation.objects.get().memory.pin(3)
        before = _rows()
        adapter.add(adapter.turn("d", "short"))  # its own list still has all results
        assert _rows()[: len(before)] == before
        adapter.state = adapter.read()  # a run that begins with the list that was read
        adapter.steps.put(adapter.state)
        assert _rows()[: len(before)] == before
        assert len(_rows()) == len(before) + 4


def test_the_archive_has_one_result_for_each_call_that_left() -> None:
    """A placeholder that leaves stands for its result there, too; the result itself is in the history."""
    adapter = LlamaIndex()
    for id in "abcdef":
        adapter.add(adapter.turn(id, LONG))
    get_messages = async_to_sync(DjangoAsyncChatStore(**WINDOW).get_messages)
    for status in (MessageStatus.ARCHIVED, None):
        told = get_messages(ID, status)
        calls = [block.tool_call_id for one in told for block in one.blocks if isinstance(block, li.ToolCallBlock)]
        assert [one.additional_kwargs["tool_call_id"] for one in told if one.role == "tool"] == calls
        assert len(calls) == len(set(calls)) > 1
    history = Conversation.objects.get().messages.history()
    assert [row.text for row in history if row.type == "TOOL_EXECUTION_RESULT"] == [LONG] * 6


def test_cleared_results_alone_cut_nothing_off() -> None:
    """A result that somebody wrote without a call stays where no call has left the memory."""
    memory = NativeMemory("fw", ID, limit=100_000)
    call = AiMessage(None, [ToolExecutionRequest("b", "look_up", "{}")])
    told = [
        ToolExecutionResultMessage("a", "look_up", LONG),
        UserMessage("Q"),
        call,
        ToolExecutionResultMessage("b", "look_up", LONG),
        UserMessage("Q"),
    ]
    memory.add(told, [None] * len(told))
    Conversation.objects.get().memory.clear_tool_results(keep=0)
    shown = [message for _row, message in valid_rows(memory)]
    texts = [one.text for one in shown if isinstance(one, ToolExecutionResultMessage)]
    assert texts == [CLEARED, CLEARED]
    assert len(shown) == 5
