"""``chatmemory_replay``: what other windows would have cost."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation
from chatmemory.replaying import replay
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db


def run(*args: str) -> str:
    out = io.StringIO()
    call_command("chatmemory_replay", *args, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def table(*args: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in run(*args).splitlines()]


def made(turns: int = 30, **kwargs: Any) -> Conversation:
    conversation = ConversationFactory(window="messages", limit=10, **kwargs)
    for turn in range(turns):
        conversation.memory.add(UserMessage(f"Question {turn}"))
        conversation.memory.add(AiMessage(f"Answer {turn}"))
    return conversation


@pytest.mark.slow
def test_there_is_a_line_for_what_happened_and_for_each_variant() -> None:
    made(), made()
    header, first, second, third, end = table("--low-water", "100", "50", "--whole-turns")
    assert header == ["window", "requests", "input tokens", "hits", "breaks", "evictions"]
    assert first[:2] == ["as it was", "60"]
    assert second[:2] == ["low water 100, whole turns", "60"]
    assert third[0] == "low water 50, whole turns"
    assert float(third[3].rstrip("%")) > float(second[3].rstrip("%")) > 0
    assert end == ["Conversations: 2."]


def test_each_setting_that_evicts_is_an_option() -> None:
    made(1)
    settings = ["--window", "messages", "--limit", "10", "--always-keep-system-message-first", "--low-water", "50"]
    settings += ["--no-whole-turns", "--keep-tool-results", "0", "3"]
    assert [line[0] for line in table(*settings)[2:-1]] == [
        f"window messages, limit 10, always keep system message first, low water 50, no whole turns, "
        f"keep tool results {count}"
        for count in (0, 3)
    ]


def test_the_figures_are_the_sums_of_the_conversations() -> None:
    conversations = [made(), made(5, low_water=50)]
    (line, variant) = map(json.loads, run("--limit", "4", "--json").splitlines())
    of_each = [each.memory.replay() for each in conversations]
    assert line["window"] is None
    assert line["conversations"] == 2
    for name in ("requests", "input_tokens", "cacheable_tokens", "prefix_breaks", "evictions", "repairs", "missing"):
        assert line[name] == sum(getattr(each, name) for each in of_each)
    assert line["hit_share"] == line["cacheable_tokens"] / line["input_tokens"]
    assert line["cost"] is None
    assert variant["window"] == {"limit": 4}
    assert variant["input_tokens"] == sum(each.memory.replay(limit=4).input_tokens for each in conversations)


def test_with_prices_it_says_what_the_input_cost(settings: Any) -> None:
    settings.CHATMEMORY = {"PRICES": {"gpt-4o": {"input": 2000, "cache_read": 200}}}
    figures = made(model="gpt-4o").memory.replay()
    made(2, model="gpt-4")
    expected = (figures.full_price_tokens * 2000 + figures.cacheable_tokens * 200) / 1_000_000
    header, line, _, unpriced = table()
    assert header[-1] == "cost"
    assert float(line[-1]) == pytest.approx(expected, abs=0.005)
    assert unpriced == ["Requests without a cost, because PRICES does not name their model: 2."]


def test_it_chooses_conversations_by_activity_and_owner() -> None:
    user = UserFactory()
    made(1, owner=user)
    old = made(1)
    Conversation.objects.filter(pk=old.pk).update(updated_at=timezone.now() - timedelta(days=40))
    assert table("--since", "30d")[-1] == ["Conversations: 1."]
    assert table("--since", "8w")[-1] == ["Conversations: 2."]
    assert table("--owner", str(user.pk))[-1] == ["Conversations: 1."]
    assert table("--conversation", str(old.pk))[-1] == ["Conversations: 1."]


def test_without_conversations_there_is_nothing_to_divide_by() -> None:
    _header, line, end = table()
    assert line == ["as it was", "0", "0", "0.0%", "0.0%", "0"]
    assert end == ["Conversations: 0."]


def test_it_says_how_many_messages_are_deleted(settings: Any) -> None:
    settings.CHATMEMORY = {"KEEP_HISTORY": False}
    made(8)
    assert table()[-1] == ["Messages that are deleted, so that nothing is known of them: 6."]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--since", "30"], "such as 12h, 30d or 8w"),
        (["--since", "999999999w"], "such as 12h, 30d or 8w"),
        (["--low-water", "101"], "percentage from 1 to 100"),
        (["--limit", "0"], "above zero"),
        (["--keep-tool-results", "-1"], "keep_tool_results must be a whole number of at least zero, or null"),
        (["--limit", *map(str, range(1, 22))], "too many"),
    ],
)
def test_a_wrong_option_is_named(args: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(*args)


def test_programs_get_the_figures_of_each_conversation() -> None:
    made(2), made(3)
    assert [one.requests for (one,) in replay()] == [2, 3]
    with pytest.raises(TypeError, match="takes no model"):
        replay(variants=[{"model": "gpt-4"}])
