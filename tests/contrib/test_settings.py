"""What adapters are told of new conversations is looked at before anything is said."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from chatmemory import UserMessage
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.native_memory import ConversationSettings, NativeMemory
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.models import Conversation

MAKERS: list[Callable[..., Any]] = [
    partial(DjangoChatMessageHistory, "t"),
    partial(DjangoSession, "t"),
    partial(DjangoMessageHistory, "t"),
    DjangoChatStore,
    DjangoAsyncChatStore,
    DjangoSaver,
    DjangoHistoryProvider,
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window", "token"),
        ("limit", 0),
        ("limit", 2**31),
        ("limit", "5"),
        ("model", " "),
        ("always_keep_system_message_first", "yes"),
        ("low_water", 0),
        ("low_water", "70"),
        ("whole_turns", 1),
        ("keep_tool_results", -1),
        ("keep_tool_results", 2**31),
        ("compact_at", 101),
        ("title", "x" * 256),
    ],
)
def test_what_no_conversation_can_have_is_refused_at_once(make: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must"):
        make(**{name: value})


@pytest.mark.parametrize("make", MAKERS)
def test_there_are_no_others(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="windw"):
        make(windw="tokens")


@pytest.mark.django_db
def test_a_new_conversation_has_them_all() -> None:
    settings: ConversationSettings = {
        "window": "messages",
        "limit": 7,
        "model": "gpt-4",
        "always_keep_system_message_first": True,
        "low_water": 70,
        "whole_turns": True,
        "keep_tool_results": 0,
        "reserve": 9,
        "compact_at": 80,
        "compact_keep": 40,
        "compact_keep_calls": 4,
        "preset": "chat",
        "title": "Parcels",
    }
    assert settings.keys() == ConversationSettings.__annotations__.keys()
    NativeMemory("fw", "t", **settings).add([UserMessage("Where?")], [None])
    kept = {name: value for name, value in settings.items() if name != "preset"}
    assert Conversation.objects.values(*kept).get() == kept


@pytest.mark.django_db
def test_of_none_the_project_decides(settings: Any) -> None:
    settings.CHATMEMORY = {"WINDOW": {"low_water": 60, "whole_turns": True, "keep_tool_results": 4}}
    NativeMemory("fw", "t", low_water=None, whole_turns=None, keep_tool_results=None).add([UserMessage("Hi")], [None])
    made = Conversation.objects.get()
    assert (made.low_water, made.whole_turns, made.keep_tool_results) == (60, True, 4)
