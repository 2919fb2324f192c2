"""Replays over REST: what windows cost, in figures."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from chatmemory.rest.views import memory
from tests.rest.test_isolation import everything
from tests.support.api import post, url
from tests.support.factories import ConversationFactory
from tests.support.planted import member, planted

FIGURES = {
    "requests", "input_tokens", "cacheable_tokens", "full_price_tokens", "hit_share", "prefix_breaks", "evictions",
    "mean_fill", "repairs", "missing",
}  # fmt: skip
SETTINGS = {
    "window",
    "limit",
    "always_keep_system_message_first",
    "low_water",
    "whole_turns",
    "keep_tool_results",
    "reserve",
    "compact_keep_calls",
}


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made = ConversationFactory(owner=user, window="messages", limit=4)
    for number in range(10):
        made.memory.add(UserMessage(f"question {number}"))
        made.memory.add(AiMessage(f"answer {number}"))
    return made


@pytest.mark.parametrize("body", ["", {}, {"variants": []}])
def test_without_windows_it_says_what_happened(api: Client, conversation: Conversation, body: Any) -> None:
    answer = post(api, url(conversation, "memory/replay/"), body)
    assert answer.status_code == 200
    shown = answer.json()
    assert set(shown["recorded"]) == FIGURES
    assert shown["variants"] == []
    replay = conversation.memory.replay()
    assert shown["recorded"] == {name: getattr(replay, name) for name in FIGURES}
    assert shown["recorded"]["requests"] == 10


def test_each_window_has_its_figures(api: Client, conversation: Conversation) -> None:
    before = everything()
    variants: list[dict[str, Any]] = [
        {},
        {"low_water": 50, "whole_turns": True},
        {"window": "tokens", "limit": 40, "keep_tool_results": 0},
        {"limit": 100, "keep_tool_results": None, "always_keep_system_message_first": True},
    ]
    shown = post(api, url(conversation, "memory/replay/"), {"variants": variants}).json()["variants"]
    for variant, figures in zip(variants, shown, strict=True):
        assert set(figures) == SETTINGS | FIGURES
        replay = conversation.memory.replay(**{"limit": 4, **variant})
        assert figures == {name: getattr(replay, name) for name in SETTINGS | FIGURES}
    assert [each["limit"] for each in shown] == [4, 4, 40, 100]
    assert [each["always_keep_system_message_first"] for each in shown] == [False, False, False, True]
    assert shown[0]["hit_share"] < shown[1]["hit_share"] < shown[3]["hit_share"]
    assert shown[3]["prefix_breaks"] == 0
    assert everything() == before


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ([], ""),
        (None, ""),
        ({"limit": 4}, "limit"),
        ({"variants": {}}, "variants"),
        ({"variants": None}, "variants"),
        ({"variants": [{}] * 6}, "variants"),
        ({"variants": [{}, None]}, "variants[1]"),
        ({"variants": [{}, {"limit": 0}]}, "variants[1].limit"),
        ({"variants": [{"limit": 2_000_001}]}, "variants[0].limit"),
        ({"variants": [{"low_water": 101}]}, "variants[0].low_water"),
        ({"variants": [{"keep_tool_results": "1"}]}, "variants[0].keep_tool_results"),
        ({"variants": [{"model": "gpt-4"}]}, "variants[0].model"),
        ({"variants": [{"title": "x"}]}, "variants[0].title"),
        ({"variants": [{"window": "x\x00"}]}, "variants[0].window"),
    ],
)
def test_bad_windows(api: Client, conversation: Conversation, body: Any, place: str) -> None:
    answer = post(api, url(conversation, "memory/replay/"), body)
    assert answer.status_code == 400
    assert [error["place"] for error in answer.json()["errors"]] == [place]


def test_a_long_conversation_is_not_replayed(
    api: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST_AT_ONCE", 20)
    assert post(api, url(conversation, "memory/replay/"), {}).status_code == 200
    conversation.memory.add(UserMessage("one more"))
    answer = post(api, url(conversation, "memory/replay/"), {})
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:chatmemory:problem:too-large")


@pytest.mark.django_db
def test_staff_who_may_not_read_get_figures_and_leave_no_record() -> None:
    theirs = planted()
    client = Client()
    client.force_login(member({"view_conversation"}))
    answer = post(client, url(theirs, "memory/replay/?owner=*"), {})
    assert (answer.status_code, LogEntry.objects.count()) == (200, 0)
