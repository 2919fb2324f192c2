"""Messages over REST."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatmemory import (
    AiMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Message
from tests.support.api import ITEM, LISTED, USER, ai, positions, post, url, user_message
from tests.support.factories import ConversationFactory


def test_a_whole_chat(api: Client) -> None:
    created = post(api, "/api/conversations/", {"memory_id": "a", "window": "messages", "limit": 2})
    base = f"/api/conversations/{created.json()['id']}/"

    first = post(api, base + "messages/", USER)
    assert first.status_code == 201
    assert set(first.json()) == {"added", "evicted", "memory", "version"}
    assert first.json()["memory"] == {"window": "messages", "limit": 2, "messages": 1, "tokens": 5}
    second = post(api, base + "messages/", {"messages": [ai("Hi"), USER]}).json()
    assert [item["text"] for item in second["added"]] == ["Hi", "Hello"]
    [gone] = second["evicted"]
    assert set(gone) == ITEM
    assert (gone["position"], gone["state"], gone["reason"], gone["evicted_in"]) == (0, "evicted", "window", 2)
    assert second["version"] == 2

    history = api.get(base + "messages/").json()["results"]
    assert [(item["position"], item["state"]) for item in history] == [(0, "evicted"), (1, "retained"), (2, "retained")]
    assert history[0] == {**gone, "feedback": None, "siblings": None, "usage": None}
    memory = api.get(base + "memory/").json()
    assert memory == {
        "messages": [ai("Hi"), USER],
        "tokens": sum(item["token_count"] for item in history[1:]),
        "window": "messages",
        "limit": 2,
        "version": 2,
    }

    assert api.delete(base + "memory/").status_code == 204
    assert api.get(base + "memory/").json()["messages"] == []
    assert len(api.get(base + "messages/").json()["results"]) == 3
    assert api.get(base).json()["message_count"] == 3


def test_history_pages_both_ways(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=3)
    conversation.memory.add(*(UserMessage(f"u{number}") for number in range(7)))
    page = api.get(url(conversation, "messages/?page_size=4"))
    assert positions(page) == [0, 1, 2, 3]
    assert positions(api.get(page.json()["next"])) == [4, 5, 6]
    newest = api.get(url(conversation, "messages/?ordering=-position&page_size=2"))
    assert positions(newest) == [6, 5]
    conversation.memory.add(UserMessage("meanwhile"))
    older = api.get(newest.json()["next"])
    assert positions(older) == [4, 3]
    assert positions(api.get(older.json()["previous"])) == [6, 5]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=retained", [1, 3, 4]),
        ("state=evicted", [0, 2]),
        ("state=retained,evicted", [0, 1, 2, 3, 4]),
        ("reason=replaced", [0]),
        ("reason=replaced,window", [0, 2]),
        ("reason=orphan", []),
        ("type=SYSTEM", [0, 1]),
        ("type=SYSTEM,AI", [0, 1, 3]),
        ("position_min=2", [2, 3, 4]),
        ("position_min=1&position_max=3", [1, 2, 3]),
        ("search=KIND", [0, 1]),
        ("search=100%25", [4]),
        ("search=%25", [4]),
        ("state=evicted&search=one", [2]),
    ],
)
def test_history_is_filtered(api: Client, user: Any, query: str, found: list[int]) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=3)
    said = [SystemMessage("be kind"), SystemMessage("be kinder"), UserMessage("one"), AiMessage("two")]
    conversation.memory.add(*said, UserMessage("100%"))
    assert positions(api.get(url(conversation, f"messages/?{query}"))) == found


def test_ranges_of_time(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=1)
    conversation.memory.add(UserMessage("old"))
    conversation.memory.add(UserMessage("new"))
    conversation.memory.add(UserMessage("newest"))
    then = timezone.now() - timedelta(days=2)
    Message.objects.filter(text="old").update(created_at=then, evicted_at=then)
    between = (timezone.now() - timedelta(days=1)).isoformat()
    for name, after in ("created", [1, 2]), ("evicted", [1]):
        assert positions(api.get(url(conversation, "messages/"), {f"{name}_after": between})) == after
        assert positions(api.get(url(conversation, "messages/"), {f"{name}_before": between})) == [0]


def test_the_newest_page_may_be_empty(api: Client, user: Any) -> None:
    page = api.get(url(ConversationFactory(owner=user), "messages/")).json()
    assert page == {"next": None, "previous": None, "results": []}


def test_one_message(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("u"), AiMessage("a"))
    conversation.memory.set([UserMessage("summary")])
    second = api.get(url(conversation, "messages/1/")).json()
    assert set(second) == LISTED
    assert (second["message"], second["reason"]) == (ai("a"), "rewritten")
    assert api.get(url(conversation, "messages/2/")).json()["synthetic"] is True
    assert len(api.get(url(conversation, "messages/")).json()["results"]) == 2
    for position in ("3", "-1", "x", "²", "9" * 10, "9" * 500):
        assert api.get(url(conversation, f"messages/{position}/")).status_code == 404


def test_an_equal_system_message_adds_nothing(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(SystemMessage("Be kind"))
    answer = post(api, url(conversation, "messages/"), {"text": "Be kind", "type": "SYSTEM"}).json()
    assert (answer["added"], answer["version"]) == ([], 1)


def test_a_message_too_large_for_the_window_is_added_and_evicted(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, limit=6)
    answer = post(api, url(conversation, "messages/"), user_message("far too many words for it")).json()
    assert answer["added"] == answer["evicted"]
    assert (answer["added"][0]["state"], answer["added"][0]["reason"]) == ("evicted", "window")
    assert answer["memory"] == {"window": "tokens", "limit": 6, "messages": 0, "tokens": 0}


def test_what_is_no_json_value_in_python_comes_back_as_it_came(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    message = {
        "contents": [{"audio": {"binaryData": "/w==", "mimeType": "audio/wav"}, "type": "AUDIO"}],
        "attributes": {"list": [{"a": [1, None]}]},
        "type": "USER",
    }
    assert post(api, url(conversation, "messages/"), message).json()["added"][0]["message"] == message
    assert api.get(url(conversation, "memory/")).json()["messages"] == [message]


def test_infinite_numbers_come_back_as_text(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    answer = post(api, url(conversation, "messages/"), '{"type": "CUSTOM", "attributes": {"n": 1e400}}')
    assert answer.json()["added"][0]["message"]["attributes"] == {"n": "Infinity"}


CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "A cat."}


def test_the_openai_format_goes_both_ways(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    path = url(conversation, "messages/?format=openai")
    one = post(api, path, {"role": "user", "content": "What is this?"})
    assert one.status_code == 201
    assert one.json()["added"][0]["message"] == {"role": "user", "content": "What is this?"}
    batch = post(api, path, {"messages": [CALL, RESULT]}).json()
    assert [item["message"] for item in batch["added"]] == [CALL, RESULT]
    assert conversation.memory.messages() == [
        UserMessage("What is this?"),
        AiMessage(tool_execution_requests=[ToolExecutionRequest("1", "look_up", "{}")]),
        ToolExecutionResultMessage("1", "look_up", "A cat."),
    ]
    said = [{"role": "user", "content": "What is this?"}, CALL, RESULT]
    assert [item["message"] for item in api.get(path).json()["results"]] == said
    assert api.get(url(conversation, "memory/?format=openai")).json()["messages"] == said
    assert api.get(url(conversation, "messages/1/?format=openai")).json()["message"] == CALL


def test_what_openai_cannot_express_is_refused_not_dropped(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(CustomMessage({"a": 1}))
    answer = api.get(url(conversation, "memory/?format=openai"))
    assert answer.status_code == 406
    assert "CUSTOM" in answer.json()["detail"]
    assert "format=langchain4j" in answer.json()["detail"]
    assert api.get(url(conversation, "memory/?format=langchain4j")).status_code == 200
    [item] = api.get(url(conversation, "messages/?format=openai")).json()["results"]
    assert (item["type"], item["message"]) == ("CUSTOM", None)


def test_a_write_never_fails_for_what_it_pushes_out(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=1)
    conversation.memory.add(CustomMessage({"a": 1}))
    answer = post(api, url(conversation, "messages/?format=openai"), {"role": "user", "content": "x"})
    assert answer.status_code == 201
    [gone] = answer.json()["evicted"]
    assert (gone["type"], gone["message"], gone["reason"]) == ("CUSTOM", None, "window")


def test_calls_without_ids_are_tied_to_their_results_whatever_the_order(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user)
    call = AiMessage(tool_execution_requests=[ToolExecutionRequest(None, "look_up", "{}")])
    conversation.memory.add(UserMessage("x"), call, ToolExecutionResultMessage(None, "look_up", "A cat."))
    memory = api.get(url(conversation, "memory/?format=openai")).json()["messages"]
    for query, step in ("", 1), ("&ordering=-position", -1):
        items = api.get(url(conversation, f"messages/?format=openai{query}")).json()["results"]
        assert [item["message"] for item in items][::step] == memory
