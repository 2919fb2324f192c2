"""The settings of windows that keep the prompt cache, over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.api import patch, post, url, user_message
from tests.support.factories import ConversationFactory

SETTINGS = {"low_water": 50, "whole_turns": True, "keep_tool_results": 2}
DEFAULTS = {"low_water": 100, "whole_turns": False, "keep_tool_results": None}


def shown(answer: Any) -> dict[str, Any]:
    return {name: answer.json()[name] for name in DEFAULTS}


@pytest.mark.parametrize("given", [SETTINGS, {}, {"keep_tool_results": 0}, {"keep_tool_results": None}])
def test_a_new_conversation_has_them(api: Client, given: dict[str, Any]) -> None:
    answer = post(api, "/api/conversations/", given)
    assert (answer.status_code, shown(answer)) == (201, DEFAULTS | given)
    assert shown(api.get(url(Conversation.objects.get()))) == DEFAULTS | given


def test_null_is_no_default(api: Client, settings: Any) -> None:
    settings.CHATMEMORY = {"USERS": "all", "WINDOW": {"low_water": 70, "whole_turns": True, "keep_tool_results": 3}}
    assert shown(post(api, "/api/conversations/", {})) == {
        "low_water": 70,
        "whole_turns": True,
        "keep_tool_results": 3,
    }
    assert shown(post(api, "/api/conversations/", {"keep_tool_results": None}))["keep_tool_results"] is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"keep_tool_results": None}, {"keep_tool_results": None}),
        ({"keep_tool_results": 0}, {"keep_tool_results": 0}),
        ({"title": "New"}, {}),
        ({"low_water": 1}, {"low_water": 1}),
        ({"whole_turns": False}, {"whole_turns": False}),
    ],
)
def test_a_change_leaves_the_others(api: Client, user: Any, given: dict[str, Any], expected: dict[str, Any]) -> None:
    conversation = ConversationFactory(owner=user, **SETTINGS)
    assert shown(patch(api, url(conversation), given)) == SETTINGS | expected
    conversation.refresh_from_db()
    assert {name: getattr(conversation, name) for name in SETTINGS} == SETTINGS | expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"low_water": 0}, "greater than or equal to 1"),
        ({"low_water": 101}, "less than or equal to 100"),
        ({"low_water": None}, "expected a whole number"),
        ({"low_water": 50.0}, "expected a whole number"),
        ({"low_water": True}, "expected a whole number"),
        ({"whole_turns": None}, "expected true or false"),
        ({"whole_turns": 1}, "expected true or false"),
        ({"keep_tool_results": -1}, "greater than or equal to 0"),
        ({"keep_tool_results": 2**31}, "less than or equal to 2147483647"),
        ({"keep_tool_results": "3"}, "expected a whole number or null"),
        ({"keep_tool_results": False}, "expected a whole number or null"),
    ],
)
def test_settings_without_a_meaning(api: Client, user: Any, given: dict[str, Any], problem: str) -> None:
    conversation = ConversationFactory(owner=user)
    for answer in (
        post(api, "/api/conversations/", given),
        patch(api, url(conversation), given),
        post(api, url(conversation, "memory/preview/"), given),
    ):
        assert answer.status_code == 400
        [error] = answer.json()["errors"]
        assert (error["place"], problem in error["detail"]) == (next(iter(given)), True), error
    assert Conversation.objects.count() == 1


def test_a_preview_uses_them(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=4, keep_tool_results=1)
    conversation.memory.add(UserMessage("u0"), AiMessage("a1"), UserMessage("u2"), AiMessage("a3"))
    for window, left in (
        ({}, [0]),
        ({"low_water": 50}, [0, 1, 2]),
        ({"whole_turns": True}, [0, 1]),
        ({"keep_tool_results": None}, [0]),
    ):
        answer = post(api, url(conversation, "memory/preview/"), {**window, "messages": [user_message("u4")]})
        assert [item["position"] for item in answer.json()["evicted"]] == left
    conversation.refresh_from_db()
    assert (conversation.keep_tool_results, conversation.low_water) == (1, 100)


def test_an_addition_says_what_the_window_evicted(api: Client, user: Any) -> None:
    conversation = ConversationFactory(owner=user, window="messages", limit=4, low_water=50, whole_turns=True)
    conversation.memory.add(UserMessage("u0"), AiMessage("a1"), UserMessage("u2"), AiMessage("a3"))
    answer = post(api, url(conversation, "messages/"), {"messages": [user_message("u4"), user_message("u5")]}).json()
    assert [(item["position"], item["reason"]) for item in answer["evicted"]] == [
        (number, "window") for number in range(4)
    ]
    assert answer["memory"] == {"window": "messages", "limit": 4, "messages": 2, "tokens": 12}
