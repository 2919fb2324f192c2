"""What the model gets, over REST: now, in the past, rewritten, or if."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.formats.registry import BUILT_IN
from chatmemory.models import Conversation, Message
from tests.support.api import ITEM, ai, post, put, url, user_message
from tests.support.factories import ConversationFactory


def texts(messages: Any) -> list[str]:
    return [message.get("text") or message["contents"][0]["text"] for message in messages]


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """Version 1: u0. 2: u0, a1. 3: a1, u2 (u0 was evicted). 4: nothing."""
    made = ConversationFactory(owner=user, window="messages", limit=2)
    made.memory.add(UserMessage("u0"))
    made.memory.add(AiMessage("a1"))
    made.memory.add(UserMessage("u2"))
    made.memory.clear()
    return made


@pytest.mark.parametrize(
    ("query", "version", "expected"),
    [
        ("", 4, []),
        ("?at=0", 0, []),
        ("?at=1", 1, ["u0"]),
        ("?at=2", 2, ["u0", "a1"]),
        ("?at=3", 3, ["a1", "u2"]),
        ("?at=4", 4, []),
        ("?at_message=0", 1, ["u0"]),
        ("?at_message=2", 3, ["a1", "u2"]),
    ],
)
def test_any_past_memory(api: Client, conversation: Conversation, query: str, version: int, expected: Any) -> None:
    answer = api.get(url(conversation, f"memory/{query}")).json()
    assert set(answer) == {"messages", "tokens", "window", "limit", "version"}
    assert (answer["version"], texts(answer["messages"])) == (version, expected)
    tokens = conversation.messages.in_memory_at(version).values_list("token_count", flat=True)
    assert answer["tokens"] == sum(tokens)


def test_a_past_memory_has_the_thinking_that_was_sent_then(api: Client, user: Any) -> None:
    made = ConversationFactory(owner=user, window="messages", limit=4)
    sent = {}
    for _ in range(4):
        made.memory.add(UserMessage("Hi"))
        made.memory.add(AiMessage("OK", thinking="Hm.", attributes={"thinking_signature": "signed"}))
        sent[made.version] = made.memory.to_format("anthropic")
    now = api.get(url(made, "memory/?format=anthropic")).json()["messages"]
    assert now == sent[made.version] == made.memory.to_format("anthropic")
    for version, request in sent.items():
        assert api.get(url(made, f"memory/?format=anthropic&at={version}")).json()["messages"] == request
    thoughts = [json.dumps(request).count('"thinking": "Hm."') for request in sent.values()]
    assert thoughts == [1, 2, 0, 0]


BOUND = replace(BUILT_IN["langchain4j"], write=BUILT_IN["anthropic"].write, binds_thinking=True)
"""A format whose API binds thinking to what stands before it, and that has a value for each message."""


@pytest.fixture
def thoughtful(user: Any, settings: Any) -> Conversation:
    settings.CHATMEMORY = {"USERS": "all", "FORMATS": {"bound": "tests.rest.test_memory.BOUND"}}
    made = ConversationFactory(owner=user, window="messages", limit=4)
    answer = AiMessage("OK", thinking="Hm.", attributes={"thinking_signature": "signed"})
    made.memory.add(UserMessage("Hi"), answer, UserMessage("Hi"))
    return made


@pytest.mark.parametrize(
    ("asked", "is_sent"),
    [
        ({}, True),
        ({"messages": [user_message("Go on")]}, True),
        ({"limit": 2}, False),
        ({"messages": [user_message("Go on"), user_message("Go on")]}, False),
        ({"messages": [{"type": "SYSTEM", "text": "Be brief."}]}, False),
    ],
)
def test_a_preview_has_the_thinking_that_would_be_sent(
    api: Client, thoughtful: Conversation, asked: Any, is_sent: bool
) -> None:
    request = post(api, url(thoughtful, "memory/preview/?format=bound"), asked).json()["messages"]
    assert ("Hm." in json.dumps(request)) is is_sent


def test_a_rewrite_answers_without_stale_thinking(api: Client, thoughtful: Conversation) -> None:
    messages = thoughtful.memory.to_format("langchain4j")
    same = put(api, url(thoughtful, "memory/?format=bound"), {"messages": messages}).json()["messages"]
    assert "Hm." in json.dumps(same)
    messages[0] = user_message("Hello")
    other = put(api, url(thoughtful, "memory/?format=bound"), {"messages": messages}).json()["messages"]
    assert "Hm." not in json.dumps(other)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("at=5", "at"),
        ("at=-1", "at"),
        ("at=x", "at"),
        ("at=", "at"),
        ("at=²", "at"),
        (f"at={'9' * 5000}", "at"),
        ("at=99999999999", "at"),
        ("at_message=3", "at_message"),
        ("at_message=x", "at_message"),
        ("at=1&at_message=1", "at_message"),
        ("at=1&at=2", "at"),
    ],
)
def test_a_past_that_was_not(api: Client, conversation: Conversation, query: str, place: str) -> None:
    answer = api.get(url(conversation, f"memory/?{query}"))
    assert answer.status_code == 400
    assert [error["place"] for error in answer.json()["errors"]] == [place]


def test_a_past_memory_ready_to_send(api: Client, conversation: Conversation) -> None:
    answer = api.get(url(conversation, "memory/?at=2&format=openai")).json()
    assert answer["messages"] == [{"role": "user", "content": "u0"}, {"role": "assistant", "content": "a1"}]


def test_a_limit_lowered_behind_its_back_shows_at_once(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=9)
    conversation.memory.add(*(UserMessage(str(number)) for number in range(3)))
    Conversation.objects.update(limit=2)
    answer = api.get(url(conversation, "memory/")).json()
    assert (texts(answer["messages"]), answer["limit"]) == (["1", "2"], 2)


def test_without_history_there_is_the_memory(api: Client, user: Any, settings: Any) -> None:
    settings.CHATMEMORY = {"USERS": "all", "KEEP_HISTORY": False}
    conversation = ConversationFactory(owner=user, window="messages", limit=1, memory_id="x")
    for text in ("a", "b"):
        conversation.memory.add(UserMessage(text))
        assert texts(api.get(url(conversation, "memory/")).json()["messages"]) == [text]
        assert texts(api.get("/api/stores/x/").json()) == [text]
    assert texts(post(api, url(conversation, "memory/preview/"), {"limit": 1}).json()["messages"]) == ["b"]


def test_rewriting_makes_a_summary_the_memory(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(SystemMessage("s"), UserMessage("u1"), AiMessage("a2"), UserMessage("u3"))
    body = {"messages": [{"text": "s", "type": "SYSTEM"}, user_message("Summary"), user_message("u3")]}
    answer = put(api, url(conversation, "memory/"), body)
    assert answer.status_code == 200
    changed = answer.json()
    assert set(changed) == {"messages", "tokens", "window", "limit", "version", "added", "evicted"}
    assert changed["messages"] == body["messages"]
    [added] = changed["added"]
    assert set(added) == ITEM
    assert (added["text"], added["synthetic"]) == ("Summary", True)
    assert [(item["text"], item["reason"]) for item in changed["evicted"]] == [("u1", "rewritten"), ("a2", "rewritten")]
    shown = api.get(url(conversation, "memory/")).json()
    assert shown == {name: changed[name] for name in shown}
    history = api.get(url(conversation, "messages/")).json()["results"]
    assert [item["text"] for item in history] == ["s", "u1", "a2", "u3"]


def test_rewriting_with_nothing_empties_the_memory(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("u"))
    assert put(api, url(conversation, "memory/"), {"messages": []}).json()["messages"] == []
    assert conversation.messages.history().count() == 1


def test_what_is_rewritten_must_fit(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=1)
    body = {"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]}
    answer = put(api, url(conversation, "memory/?format=openai"), body).json()
    assert answer["messages"] == [{"role": "user", "content": "y"}]
    assert [item["reason"] for item in answer["evicted"]] == ["window"]


@pytest.mark.parametrize(
    "body", [{}, [], None, {"messages": None}, {"messages": [], "x": 1}, {"messages": [[]]}, ai("x")]
)
def test_no_memory_is_no_rewrite(api: Client, user: Any, body: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("u"))
    assert put(api, url(conversation, "memory/"), body).status_code == 400
    assert conversation.memory.messages() == [UserMessage("u")]


def test_a_preview_tells_and_writes_nothing(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(SystemMessage("s"), UserMessage("u1"), AiMessage("a2"))
    before = [*Message.objects.values(), *Conversation.objects.values()]
    path = url(conversation, "memory/preview/")
    answer = post(api, path, {"window": "messages", "limit": 3, "messages": [user_message("u3"), ai("a4")]})
    assert answer.status_code == 200
    shown = answer.json()
    assert set(shown) == {"messages", "tokens", "window", "limit", "version", "added", "evicted"}
    assert texts(shown["messages"]) == ["s", "u3", "a4"]
    assert (shown["window"], shown["limit"], shown["version"]) == ("messages", 3, 1)
    assert [(item["position"], item["reason"], item["state"]) for item in shown["evicted"]] == [
        (1, "window", "evicted"),
        (2, "window", "evicted"),
    ]
    assert [(item["position"], item["created_at"]) for item in shown["added"]] == [(3, None), (4, None)]
    assert [*Message.objects.values(), *Conversation.objects.values()] == before


def test_a_preview_of_nothing_is_the_memory(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("u"))
    shown = post(api, url(conversation, "memory/preview/"), {}).json()
    assert (shown["added"], shown["evicted"]) == ([], [])
    memory = api.get(url(conversation, "memory/")).json()
    assert memory == {name: shown[name] for name in memory}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"limit": 0}, "limit"),
        ({"window": "hours"}, "window"),
        ({"model": ""}, "model"),
        ({"always_keep_system_message_first": 1}, "always_keep_system_message_first"),
        ({"title": "x"}, "title"),
        ({"messages": None}, "messages"),
        ({"messages": [user_message("x"), {"type": "USER"}]}, "messages[1]"),
        ([], ""),
    ],
)
def test_bad_previews(api: Client, user: Any, body: Any, place: str) -> None:
    answer = post(api, url(ConversationFactory(owner=user), "memory/preview/"), body)
    assert answer.status_code == 400
    assert [error["place"] for error in answer.json()["errors"]] == [place]
