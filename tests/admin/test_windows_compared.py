"""The page "Window": the present window beside others, in figures."""

# ruff: noqa: F811

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chatmemory import AiMessage, UserMessage
from chatmemory.admin.display import window_words
from chatmemory.models import Conversation
from tests.admin.test_conversation import conversation, page, staff, words  # noqa: F401
from tests.admin.test_window_page import ONE, THREE, cards, long, outcome, tried  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def figures(real: Any) -> str:
    return (
        f"From the prompt cache {real.hit_share:.0%} Tokens at full price {real.full_price_tokens:,} "
        f"Requests that began differently {real.prefix_breaks} of {real.requests} "
        f"Requests that an API would refuse {real.repairs}"
    )


def test_the_figures_are_those_of_trials_and_replays(admin_client: Client, long: Conversation) -> None:
    query = (
        "?1-window=messages&1-limit=8&1-low_water=50&1-whole_turns=yes&1-compact_at=80"
        "&2-window=tokens&2-limit=80&2-low_water=70&2-keep_tool_results=3"
    )
    now, one, two = cards(tried(admin_client, long, query))
    first = {"window": "messages", "limit": 8, "low_water": 50, "whole_turns": True}
    second = {"window": "tokens", "limit": 80, "low_water": 70, "keep_tool_results": 3}
    assert now.startswith(
        f"Now at most 10 messages 10 of 10 messages Messages in the memory 10 Their tokens {long.retained_tokens} "
        f"Messages evicted now – {figures(long.memory.replay())}"
    )
    trial = long.memory.try_window(**first)
    assert one.startswith("Window 1 at most 8 messages, evicts down to 50%, whole turns, a summary is due at 80%")
    assert (
        f"Messages in the memory {len(trial.retained)} Their tokens {trial.tokens} Messages evicted now "
        f"{len(trial.evicted)} {figures(long.memory.replay(**first))}"
    ) in one
    trial = long.memory.try_window(**second)
    assert f"Messages in the memory {len(trial.retained)} Their tokens {trial.tokens}" in two
    assert figures(long.memory.replay(**second)) in two


def test_without_a_question_are_the_neighbours(admin_client: Client, long: Conversation) -> None:
    shown = tried(admin_client, long)
    assert [card.split(",")[0].split(" messages")[0] for card in cards(shown)] == [
        "Now at most 10",
        "Half at most 5",
        "Double at most 20",
        "Chat at most 10",
    ]
    assert not outcome(shown)
    query = re.findall(r'href="(\?[^"]*)#chatmemory-outcome"', shown)[0]
    assert "5 would stay, 5 would be evicted" in words(outcome(tried(admin_client, long, unescape(query))))


@pytest.mark.slow
def test_reads_the_memory_once_for_all_windows(admin_client: Client, long: Conversation) -> None:
    counts = []
    for query in (ONE, ONE, THREE):
        with CaptureQueriesContext(connection) as captured:
            tried(admin_client, long, query)
        counts.append(len(captured))
    assert counts[1] == counts[2]


def test_nothing_answered_is_nothing_to_compare(admin_client: Client) -> None:
    made = ConversationFactory()
    made.memory.add(UserMessage("hello"))
    shown = tried(admin_client, made)
    assert "no model has answered yet" in words(shown)
    assert "From the prompt cache" not in words(shown)


def test_an_empty_conversation_has_the_page(admin_client: Client) -> None:
    shown = tried(admin_client, ConversationFactory(), ONE)
    assert "0 would stay, 0 would be evicted" in words(outcome(shown))


def test_what_was_not_kept_is_said(admin_client: Client, settings: Any) -> None:
    settings.CHATMEMORY = {"KEEP_HISTORY": False}
    made = ConversationFactory(window="messages", limit=2)
    made.memory.add(UserMessage("one"), AiMessage("two"), UserMessage("three"), AiMessage("four"))
    assert "2 evicted messages were not kept" in words(tried(admin_client, made))


def test_the_prompt_cache_of_a_very_long_one_is_for_the_command(
    admin_client: Client, long: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_words, "MOST_AT_ONCE", long.next_position)
    assert "From the prompt cache" in words(tried(admin_client, long, ONE))
    monkeypatch.setattr(window_words, "MOST_AT_ONCE", long.next_position - 1)
    shown = tried(admin_client, long, ONE)
    assert "From the prompt cache" not in words(shown)
    assert f"manage.py chatmemory_replay --conversation {long.pk}" in words(shown)
    assert "1 would stay, 9 would be evicted" in words(outcome(shown))


def test_a_memory_that_is_too_long_is_not_tried(
    admin_client: Client, conversation: Conversation, settings: Any
) -> None:
    settings.CHATMEMORY = {"MAX_MEMORY_CHARS": 10}
    shown = tried(admin_client, conversation, ONE)
    assert "This memory is too long for this page." in words(shown)
    assert len(cards(shown)) == 1
    assert not outcome(shown)


def test_is_not_for_those_who_may_not_see_it(staff: Any, conversation: Conversation) -> None:
    assert staff("view_message").get(page(conversation, "window")).status_code == 403
