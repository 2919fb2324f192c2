"""Replays of conversations that went back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation, Origin
from tests.support import budget

pytestmark = pytest.mark.django_db

steps = st.lists(
    st.tuples(st.sampled_from(["say", "say", "call", "rewind", "switch"]), st.integers(0, 30)), min_size=3, max_size=25
)
windows = st.one_of(
    st.fixed_dictionaries({"window": st.just("messages"), "limit": st.integers(1, 12), "low_water": st.just(100)}),
    st.fixed_dictionaries(
        {"window": st.just("tokens"), "limit": st.integers(20, 200), "low_water": st.sampled_from([50, 100])}
    ),
)


def talk(window: dict[str, Any], script: list[tuple[str, int]]) -> Conversation:
    """Do the same in a conversation with any window: what is said is named by its number."""
    conversation = Conversation.objects.create(model="gpt-4o", **window)
    for number, (what, which) in enumerate(script):
        said = conversation.messages.filter(origin=Origin.SAID).order_by("position")
        places = list(said.filter(type__in=("USER", "AI")).values_list("position", flat=True))
        match what:
            case "rewind" if places:
                conversation.rewind(before=places[which % len(places)])
            case "switch" if places:
                conversation.switch(places[which % len(places)])
            case "call":
                conversation.memory.add(UserMessage(f"{number}" + " word" * which))
                conversation.memory.add(AiMessage("", [ToolExecutionRequest(f"{number}", "tool", "{}")]))
                conversation.memory.add(ToolExecutionResultMessage(f"{number}", "tool", f"{number}" + " word" * which))
                conversation.memory.add(AiMessage(f"so {number}"))
            case _:
                conversation.memory.add(UserMessage(f"{number}" + " word" * which))
                conversation.memory.add(AiMessage(f"answer {number}"))
    return conversation


@pytest.mark.slow
@given(script=steps, window=windows, other=windows)
@settings(max_examples=budget.examples(45), deadline=None)
def test_another_window_goes_back_to_what_it_had(
    script: list[tuple[str, int]], window: dict[str, Any], other: dict[str, Any]
) -> None:
    conversation, same_with_other = talk(window, script), talk(other, script)
    expected = same_with_other.memory.replay()
    assert conversation.memory.replay(**other) == replace(expected, recall=None)
    assert conversation.memory.replay(**window) == conversation.memory.replay()


def test_the_cache_has_the_prefix_again() -> None:
    """An edit of the last question breaks the prefix of the request, but not that of what comes before it."""
    conversation = Conversation.objects.create(window="messages", limit=100)
    for number in range(3):
        conversation.memory.add(UserMessage(f"question {number}"))
        conversation.memory.add(AiMessage(f"answer {number}"))
    before = conversation.memory.replay()
    conversation.edit(4, UserMessage("another question"))
    conversation.memory.add(AiMessage("another answer"))
    after = conversation.memory.replay()
    kept = sum(row.token_count for row in conversation.messages.filter(position__lt=4))
    assert after.requests == before.requests + 1
    assert after.cacheable_tokens == before.cacheable_tokens + kept
