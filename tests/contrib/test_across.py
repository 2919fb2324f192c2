"""A conversation with tools that one framework adds is read by each other: who speaks, what is called and answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from agent_framework import Content
from agent_framework import Message as FrameworkMessage
from asgiref.sync import async_to_sync
from langchain_core import messages as lc
from langgraph.graph import START, MessagesState, StateGraph
from llama_index.core.base.llms import types as li
from llama_index.core.storage.chat_store.base_db import MessageStatus
from pydantic_ai import messages as pa
from rest_framework.test import APIClient

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.agent_framework import messages as agent_framework
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langchain import messages as langchain
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.llama_index import messages as llama_index
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.formats import agents_items, pydantic_ai
from chatmemory.models import Conversation
from chatmemory.signals import memory_repaired
from chatmemory.transfer import chatgpt
from chatmemory.verification import verify

pytestmark = pytest.mark.django_db(transaction=True)

ID = "across"

# Under these names the rows of every earlier version keep native forms; under another one they would not be found.
FRAMEWORKS = {
    agent_framework.FRAMEWORK: "agent-framework",
    langchain.FRAMEWORK: "langchain",
    llama_index.FRAMEWORK: "llama-index",
    agents_items.FRAMEWORK: "openai_agents",
    pydantic_ai.FRAMEWORK: "pydantic_ai",
    chatgpt.FRAMEWORK: "chatgpt",
}
Told = list[tuple[Any, ...]]

# What all of them can say.
TOLD: Told = [
    ("system", "You sell tea."),
    ("user", "Weather in Jena, and the time? 你好"),
    ("calls", "Looking.", ("a", "weather", {"city": "Jena"}), ("b", "time", {})),
    ("result", "a", "weather", "rain"),
    ("result", "b", "time", "noon"),
    ("answer", "It rains at noon."),
    ("user", "Thanks."),
    ("answer", "Gladly."),
]


def _calls(told: tuple[Any, ...], make: Callable[[str, str, dict[str, Any]], Any]) -> list[Any]:
    return [make(*call) for call in told[2:]]


def _write_core(owner: Any, said: Told = TOLD) -> None:
    messages: list[Any] = []
    for told in said:
        match told[0]:
            case "system":
                messages.append(SystemMessage(told[1]))
            case "user":
                messages.append(UserMessage(told[1]))
            case "calls":
                requests = _calls(told, lambda id, name, given: ToolExecutionRequest(id, name, json.dumps(given)))
                messages.append(AiMessage(told[1], requests))
            case "result":
                messages.append(ToolExecutionResultMessage(*told[1:]))
            case "answer":
                messages.append(AiMessage(told[1]))
    Conversation.objects.create(owner=owner, memory_id=ID).memory.add(*messages)


def _langchain_messages(said: Told) -> list[lc.BaseMessage]:
    messages: list[lc.BaseMessage] = []
    for told in said:
        match told[0]:
            case "system":
                messages.append(lc.SystemMessage(told[1]))
            case "user":
                messages.append(lc.HumanMessage(told[1]))
            case "calls":
                calls = _calls(told, lambda id, name, given: {"id": id, "name": name, "args": given})
                messages.append(lc.AIMessage(told[1], tool_calls=calls, response_metadata={"finish_reason": "calls"}))
            case "result":
                messages.append(lc.ToolMessage(told[3], tool_call_id=told[1], name=told[2]))
            case "answer":
                messages.append(lc.AIMessage(told[1]))
    return messages


def _write_langchain(owner: Any, said: Told = TOLD) -> None:
    DjangoChatMessageHistory(ID, owner).add_messages(_langchain_messages(said))


def _write_langgraph(owner: Any, said: Told = TOLD) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("all", lambda state: {"messages": _langchain_messages(said)[2:]})
    builder.add_edge(START, "all")
    graph = builder.compile(checkpointer=DjangoSaver(owner))
    graph.invoke({"messages": _langchain_messages(said)[:2]}, {"configurable": {"thread_id": ID}})


def _write_agents(owner: Any, said: Told = TOLD) -> None:
    items: list[Any] = []
    for told in said:
        match told[0]:
            case "calls":
                text = {"type": "output_text", "text": told[1], "annotations": []}
                items.append({"type": "message", "id": "m1", "role": "assistant", "content": [text]})
                items += _calls(
                    told,
                    lambda id, name, given: {
                        "type": "function_call",
                        "call_id": id,
                        "name": name,
                        "arguments": json.dumps(given),
                    },
                )
            case "result":
                items.append({"type": "function_call_output", "call_id": told[1], "output": told[3]})
            case "answer":
                items.append({"role": "assistant", "content": told[1]})
            case role:
                items.append({"role": role, "content": told[1]})
    asyncio.run(DjangoSession(ID, owner=owner).add_items(items))


def _write_pydantic_ai(owner: Any, said: Told = TOLD) -> None:
    def call(id: str, name: str, given: dict[str, Any]) -> pa.ToolCallPart:
        return pa.ToolCallPart(name, given, id)

    messages = [
        pa.ModelRequest([pa.SystemPromptPart(said[0][1]), pa.UserPromptPart(said[1][1])]),
        pa.ModelResponse([pa.TextPart(said[2][1]), *_calls(said[2], call)]),
        pa.ModelRequest([pa.ToolReturnPart(name, text, id) for _kind, id, name, text in said[3:5]]),
        pa.ModelResponse([pa.TextPart(said[5][1])]),
        pa.ModelRequest([pa.UserPromptPart(said[6][1])]),
        pa.ModelResponse([pa.TextPart(said[7][1])]),
    ]
    DjangoMessageHistory(ID, owner=owner).add(messages)


def _write_llama_index(owner: Any, said: Told = TOLD) -> None:
    store = DjangoChatStore(owner)
    for told in said:
        match told[0]:
            case "calls":
                calls = _calls(
                    told, lambda id, name, given: li.ToolCallBlock(tool_call_id=id, tool_name=name, tool_kwargs=given)
                )
                message = li.ChatMessage(role="assistant", blocks=[li.TextBlock(text=told[1]), *calls])
            case "result":
                kwargs = {"tool_call_id": told[1], "name": told[2]}
                message = li.ChatMessage(role="tool", content=told[3], additional_kwargs=kwargs)
            case "answer":
                message = li.ChatMessage(role="assistant", content=told[1])
            case role:
                message = li.ChatMessage(role=role, content=told[1])
        store.add_message(ID, message)


def _write_agent_framework(owner: Any, said: Told = TOLD) -> None:
    def call(id: str, name: str, given: dict[str, Any]) -> Content:
        return Content.from_function_call(id, name, arguments=given)

    def result(told: tuple[Any, ...]) -> Content:
        return Content.from_function_result(told[1], result=told[3])

    messages = [
        FrameworkMessage("system", [said[0][1]]),
        FrameworkMessage("user", [said[1][1]]),
        FrameworkMessage("assistant", [said[2][1], *_calls(said[2], call)], message_id="m1"),
        FrameworkMessage("tool", list(map(result, said[3:5]))),
        FrameworkMessage("assistant", [said[5][1]]),
        FrameworkMessage("user", [said[6][1]]),
        FrameworkMessage("assistant", [said[7][1]]),
    ]
    asyncio.run(DjangoHistoryProvider(owner).save_messages(ID, messages))


def _arguments(given: Any) -> Any:
    return json.loads(given) if isinstance(given, str) else given


def _read_core(owner: Any) -> Told:
    told: Told = []
    for message in Conversation.objects.get(owner=owner, memory_id=ID).memory.messages():
        match message:
            case SystemMessage():
                told.append(("system", message.text))
            case UserMessage():
                told.append(("user", message.single_text()))
            case AiMessage(tool_execution_requests=()):
                told.append(("answer", message.text))
            case AiMessage(tool_execution_requests=requests):
                calls = [(request.id, request.name, _arguments(request.arguments)) for request in requests]
                told.append(("calls", message.text, *calls))
            case ToolExecutionResultMessage():
                told.append(("result", message.id, message.tool_name, message.text))
    return told


def _told_by_langchain(messages: list[lc.BaseMessage]) -> Told:
    told: Told = []
    for message in messages:
        match message:
            case lc.SystemMessage():
                told.append(("system", message.text))
            case lc.HumanMessage():
                told.append(("user", message.text))
            case lc.AIMessage(tool_calls=[]):
                told.append(("answer", message.text))
            case lc.AIMessage():
                calls = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
                told.append(("calls", message.text, *calls))
            case lc.ToolMessage():
                told.append(("result", message.tool_call_id, message.name, message.text))
    return told


def _read_langchain(owner: Any) -> Told:
    return _told_by_langchain(DjangoChatMessageHistory(ID, owner).messages)


def _read_langgraph(owner: Any) -> Told:
    return _told_by_langchain(DjangoSaver(owner).messages(ID))


def _read_agents(owner: Any) -> Told:
    told: Told = []
    names: dict[str, str] = {}
    for item in asyncio.run(DjangoSession(ID, owner=owner).get_items()):
        data: Any = item
        if data.get("type") == "function_call":
            names[data["call_id"]] = data["name"]
            call = (data["call_id"], data["name"], _arguments(data["arguments"]))
            *_before, last = told
            told[-1] = ("calls", *last[1:], call)
        elif data.get("type") == "function_call_output":
            told.append(("result", data["call_id"], names[data["call_id"]], data["output"]))
        else:
            content = data["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            told.append(("answer" if data["role"] == "assistant" else data["role"], text))
    return told


def _read_pydantic_ai(owner: Any) -> Told:
    told: Told = []
    for message in DjangoMessageHistory(ID, owner=owner).messages():
        calls = [part for part in message.parts if isinstance(part, pa.ToolCallPart)]
        for part in message.parts:
            match part:
                case pa.SystemPromptPart():
                    told.append(("system", part.content))
                case pa.UserPromptPart():
                    told.append(("user", part.content))
                case pa.ToolReturnPart():
                    told.append(("result", part.tool_call_id, part.tool_name, part.content))
                case pa.TextPart():
                    found = [(call.tool_call_id, call.tool_name, call.args_as_dict()) for call in calls]
                    told.append(("calls" if calls else "answer", part.content, *found))
    return told


def _told_by_llama_index(messages: list[li.ChatMessage]) -> Told:
    told: Told = []
    names: dict[Any, Any] = {}
    for message in messages:
        calls = [block for block in message.blocks if isinstance(block, li.ToolCallBlock)]
        if calls:
            names |= {call.tool_call_id: call.tool_name for call in calls}
            found = [(call.tool_call_id, call.tool_name, _arguments(call.tool_kwargs)) for call in calls]
            told.append(("calls", message.content, *found))
        elif message.role == li.MessageRole.TOOL:
            id = message.additional_kwargs["tool_call_id"]
            told.append(("result", id, names[id], message.content))
        else:
            role = "answer" if message.role == li.MessageRole.ASSISTANT else message.role.value
            told.append((role, message.content))
    return told


def _read_llama_index(owner: Any) -> Told:
    return _told_by_llama_index(DjangoChatStore(owner).get_messages(ID))


def _read_llama_index_async(owner: Any) -> Told:
    return _told_by_llama_index(asyncio.run(DjangoAsyncChatStore(owner).get_messages(ID)))


def _read_agent_framework(owner: Any) -> Told:
    told: Told = []
    names: dict[Any, Any] = {}
    for message in asyncio.run(DjangoHistoryProvider(owner).get_messages(ID)):
        calls = [content for content in message.contents if content.type == "function_call"]
        if calls:
            names |= {call.call_id: call.name for call in calls}
            found = [(call.call_id, call.name, call.parse_arguments()) for call in calls]
            told.append(("calls", message.text, *found))
        elif message.role == "tool":
            told += [("result", one.call_id, names[one.call_id], one.result) for one in message.contents]
        else:
            told.append(("answer" if message.role == "assistant" else message.role, message.text))
    return told


def _read_rest(owner: Any) -> Told:
    client = APIClient()
    client.force_login(owner)
    (conversation,) = client.get("/api/conversations/").json()["results"]
    answer = client.get(f"/api/conversations/{conversation['id']}/memory/?format=openai").json()
    told: Told = []
    names: dict[str, str] = {}
    for message in answer["messages"]:
        if message.get("tool_calls"):
            calls = [(call["id"], call["function"]) for call in message["tool_calls"]]
            names |= {id: function["name"] for id, function in calls}
            found = [(id, function["name"], _arguments(function["arguments"])) for id, function in calls]
            told.append(("calls", message["content"], *found))
        elif message["role"] == "tool":
            told.append(("result", message["tool_call_id"], names[message["tool_call_id"]], message["content"]))
        else:
            told.append(("answer" if message["role"] == "assistant" else message["role"], message["content"]))
    return told


WRITERS = [
    _write_core,
    _write_langchain,
    _write_langgraph,
    _write_agents,
    _write_pydantic_ai,
    _write_llama_index,
    _write_agent_framework,
]
READERS = [
    _read_core,
    _read_rest,
    _read_langchain,
    _read_langgraph,
    _read_agents,
    _read_pydantic_ai,
    _read_llama_index,
    _read_llama_index_async,
    _read_agent_framework,
]


def test_the_names_of_native_forms_stay() -> None:
    assert list(FRAMEWORKS) == list(FRAMEWORKS.values())


@pytest.mark.parametrize("write", WRITERS)
def test_what_one_adds_each_reads(write: Callable[..., None], user: Any) -> None:
    write(user)
    for read in READERS:
        assert read(user) == TOLD, read.__name__
    assert list(verify()) == []
    assert Conversation.objects.get().messages.history().count() == len(TOLD)


ADAPTERS = {
    "langchain": (_write_langchain, [_read_langchain]),
    "langchain, by LangGraph": (_write_langgraph, [_read_langgraph]),
    "openai_agents": (_write_agents, [_read_agents]),
    "pydantic_ai": (_write_pydantic_ai, [_read_pydantic_ai]),
    "llama-index": (_write_llama_index, [_read_llama_index, _read_llama_index_async]),
    "agent-framework": (_write_agent_framework, [_read_agent_framework]),
}


def _pop_items() -> tuple[list[Any], list[Any]]:
    session = DjangoSession(ID)

    async def use() -> tuple[list[Any], list[Any]]:
        items: list[Any] = await session.get_items()
        return items, [await session.pop_item() for _ in items][::-1]

    return asyncio.run(use())


def _delete_last() -> tuple[list[Any], list[Any]]:
    store = DjangoChatStore()
    read = store.get_messages(ID)
    return read, [store.delete_last_message(ID) for _ in read][::-1]


def _delete_rows() -> tuple[list[Any], list[Any]]:
    store = DjangoAsyncChatStore()
    keys = list(Conversation.objects.get().messages.retained().values_list("pk", flat=True))

    async def use() -> tuple[list[Any], list[Any]]:
        read = await store.get_messages(ID)
        return read, [await store.delete_message(ID, key) for key in reversed(keys)][::-1]

    return asyncio.run(use())


def _delete_archived_rows() -> tuple[list[Any], list[Any]]:
    async_to_sync(DjangoAsyncChatStore().archive_oldest_messages)(ID, 5)
    keys = list(Conversation.objects.get().messages.order_by("memory_order").values_list("pk", flat=True))

    async def use() -> tuple[list[Any], list[Any]]:
        store = DjangoAsyncChatStore()
        read = await store.get_messages(ID, MessageStatus.ARCHIVED)
        return read, [await store.delete_message(ID, key) for key in reversed(keys)][::-1]

    return asyncio.run(use())


def _take_oldest(name: str) -> tuple[list[Any], list[Any]]:
    store = DjangoAsyncChatStore()
    return async_to_sync(store.get_messages)(ID), async_to_sync(getattr(store, name))(ID, 5)


def _delete_all() -> tuple[list[Any], list[Any]]:
    store = DjangoChatStore()
    return store.get_messages(ID), store.delete_messages(ID) or []


@pytest.mark.parametrize(
    "take",
    [
        _pop_items,
        _delete_last,
        _delete_rows,
        _delete_archived_rows,
        pytest.param(lambda: _take_oldest("delete_oldest_messages"), id="delete_oldest"),
        pytest.param(lambda: _take_oldest("archive_oldest_messages"), id="archive_oldest"),
        _delete_all,
    ],
)
def test_what_is_taken_out_has_the_ids_that_were_read(take: Callable[[], tuple[list[Any], list[Any]]]) -> None:
    memory = Conversation.objects.create(memory_id=ID).memory
    calls = [ToolExecutionRequest(None, name, "{}") for name in ("weather", "time")]
    results = [ToolExecutionResultMessage(None, None, text) for text in ("rain", "noon")]
    memory.add(UserMessage("Well?"), AiMessage(None, calls), *results, UserMessage("Thanks"))
    read, taken = take()
    assert len(taken) >= 5
    assert taken == read


# LangGraph itself has other characters for a lone surrogate before it stores a checkpoint.
HALVES = [("a\ud83db", "a\ufffdb"), ("\udd12\ud83d", "\ufffd\ufffd")]


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [(name, *case) for name in ADAPTERS for case in [("a\x00b", "a\ufffdb"), ("\x00", "\ufffd")]]
    + [(name, *case) for name in ADAPTERS if "LangGraph" not in name for case in HALVES],
)
def test_what_a_tool_returns_does_not_end_a_run(name: str, text: str, stored: str, user: Any) -> None:
    repaired: list[dict[str, Any]] = []

    def receive(**sent: Any) -> None:
        repaired.append(sent)

    def said(result: str) -> Told:
        return [*TOLD[:3], ("result", "a", "weather", result), *TOLD[4:]]

    write, _ = ADAPTERS[name]
    memory_repaired.connect(receive, sender=Conversation)
    try:
        write(user, said(text))
    finally:
        memory_repaired.disconnect(receive, sender=Conversation)
    conversation = Conversation.objects.get()
    for read in READERS:
        assert read(user) == said(stored), read.__name__
    assert {(sent["conversation"], sent["format"]) for sent in repaired} == {(conversation, name.partition(",")[0])}
    (repair,) = [repair for sent in repaired for repair in sent["repairs"]]
    assert (repair.reason, "U+FFFD" in repair.what) == ("character", True)
    assert list(verify()) == []


@pytest.mark.parametrize("name", ADAPTERS)
def test_calls_without_ids_are_read_with_the_same_ones(name: str, user: Any) -> None:
    memory = Conversation.objects.create(owner=user, memory_id=ID).memory
    requests = [ToolExecutionRequest(None, "weather", "{}"), ToolExecutionRequest(None, "time", "{}")]
    memory.add(UserMessage("Weather?"), AiMessage("Looking.", requests))
    memory.add(ToolExecutionResultMessage(None, "weather", "rain"), ToolExecutionResultMessage(None, "time", "noon"))
    for read in ADAPTERS[name][1]:
        assert read(user) == [
            ("user", "Weather?"),
            ("calls", "Looking.", ("call_1_0", "weather", {}), ("call_1_1", "time", {})),
            ("result", "call_1_0", "weather", "rain"),
            ("result", "call_1_1", "time", "noon"),
        ]


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_late_result_whose_call_was_evicted_is_left_out(name: str, user: Any) -> None:
    memory = Conversation.objects.create(owner=user, memory_id=ID, window="messages", limit=4).memory
    requests = [ToolExecutionRequest("a", "weather", "{}"), ToolExecutionRequest("b", "time", "{}")]
    memory.add(AiMessage("Looking.", requests), ToolExecutionResultMessage("a", "weather", "rain"))
    memory.add(UserMessage("And?"), ToolExecutionResultMessage("b", "time", "noon"))
    for read in ADAPTERS[name][1]:
        assert len(read(user)) == 4
    memory.add(UserMessage("Well?"))
    assert len(memory.messages()) == 3
    for read in ADAPTERS[name][1]:
        assert read(user) == [("user", "And?"), ("user", "Well?")]
