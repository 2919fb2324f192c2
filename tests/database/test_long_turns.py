"""Summaries of a turn that goes on: one question, and very many tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chatmemory import (
    AiMessage,
    ChatMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.summaries import summary_text
from chatmemory.database.operations.compact import compact
from chatmemory.database.operations.compaction_plan import plan_compaction, uncovered
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.responses import to_responses
from chatmemory.formats.validity import Repair
from chatmemory.models import Conversation, Origin
from chatmemory.retention import purge_evicted
from chatmemory.verification import verify
from tests.database.test_conversations import check_invariants
from tests.support.factories import ConversationFactory
from tests.support.provider_rules import (
    assert_anthropic_accepts,
    assert_gemini_accepts,
    assert_openai_accepts,
    assert_responses_accept,
)

pytestmark = pytest.mark.django_db

WRITERS: dict[Any, Any] = {
    to_openai: assert_openai_accepts,
    to_responses: assert_responses_accept,
    to_anthropic: assert_anthropic_accepts,
    to_gemini: assert_gemini_accepts,
}
QUESTION = UserMessage("q")


def calls(first: int, last: int) -> list[ChatMessage]:
    """The calls of these numbers, each with a result of about 60 tokens."""
    return [
        message
        for number in range(first, last + 1)
        for message in (
            AiMessage(f"c{number}", [ToolExecutionRequest(f"id{number}", "look", "{}")]),
            ToolExecutionResultMessage(f"id{number}", "look", f"r{number}" + " word" * 50),
        )
    ]


def agent(**window: Any) -> Conversation:
    settings = {"limit": 1000, "compact_at": 90, "compact_keep": 30, "compact_keep_calls": 2} | window
    conversation: Conversation = ConversationFactory(**settings)
    return conversation


def short(messages: Sequence[ChatMessage]) -> list[str]:
    """The first word of each message; of a summary its text in brackets."""
    texts = [message.text or "" for message in messages]
    return [
        f"[{summary_text(message)}]" if text.startswith("<summary>") else text.split()[0]
        for message, text in zip(messages, texts, strict=True)
    ]


def memory(conversation: Conversation) -> list[str]:
    return short(conversation.memory.messages())


def check_request(conversation: Conversation) -> None:
    """The APIs take the memory as it is."""
    for write, assert_accepted in WRITERS.items():
        repairs: list[Repair] = []
        assert_accepted(write(conversation.memory.messages(), repairs.append))
        assert not repairs


class Scribe:
    """Tells which messages it was given."""

    def __init__(self, input_tokens: int = 60_000) -> None:
        self.input_tokens = input_tokens
        self.told: list[str] = []

    def __call__(self, messages: Sequence[ChatMessage], previous: str | None) -> str:
        self.told += short(messages)
        return f"up to {short(messages)[-1]}"


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize(
    "window",
    [
        {},
        {"whole_turns": True, "low_water": 60},
        {"low_water": 50, "keep_tool_results": 1},
        {"window": "messages", "limit": 16},
        {"reserve": 200},
    ],
)
def test_an_agent_with_one_question_and_40_calls(window: dict[str, Any]) -> None:
    conversation = agent(**window)
    scribe = Scribe()
    conversation.memory.add(SystemMessage("s"), QUESTION)
    memories = {}
    for number in range(1, 41):
        conversation.memory.add(calls(number, number)[0])
        conversation.memory.add(calls(number, number)[1])
        conversation.memory.compact(scribe, if_due=True)
        said = memory(conversation)
        assert said[:2] == ["s", "q"]
        assert said[-2:] == [f"c{number}", f"r{number}"]
        check_request(conversation)
        conversation.refresh_from_db()
        memories[conversation.version] = conversation.memory.messages()
    assert len(scribe.told) > 50
    assert scribe.told == short(calls(1, 40))[: len(scribe.told)], "each once, in order"
    assert memory(conversation)[2] == f"[up to {scribe.told[-1]}]"
    assert {version: conversation.memory.at(version) for version in memories} == memories
    assert not uncovered(conversation).filter(position__lt=conversation.compacted_to).exists()
    check_invariants(conversation)
    assert list(verify()) == []


class TestWithoutTheSetting:
    def test_nothing_of_the_last_turn_is_summarised(self) -> None:
        conversation = agent(compact_keep_calls=None)
        conversation.memory.add(QUESTION, *calls(1, 40))
        assert conversation.memory.compact(Scribe()) is None
        assert "q" not in memory(conversation)

    def test_it_can_be_set_in_a_turn_whose_question_has_left(self) -> None:
        conversation = agent(compact_keep_calls=None)
        conversation.memory.add(QUESTION, *calls(1, 40))
        conversation.memory.set_window(compact_keep_calls=3)
        scribe = Scribe()
        conversation.memory.compact(scribe, if_due=True)
        assert scribe.told == short([QUESTION, *calls(1, 37)])
        assert memory(conversation) == ["[up to r37]", *short(calls(38, 40))]


class TestWhatASummaryCovers:
    def test_its_range_is_that_of_the_calls(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 12))
        change = conversation.memory.compact(Scribe())
        assert change is not None
        (summary,) = change.added
        assert (summary.origin, summary.covers_from, summary.covers_to) == (Origin.SUMMARY, 1, 20)
        assert memory(conversation) == ["q", "[up to r10]", "c11", "r11", "c12", "r12"]

    def test_a_turn_that_fits_stays_whole(self) -> None:
        conversation = agent(limit=2000)
        conversation.memory.add(UserMessage("old" + " word" * 300), AiMessage("answer" + " word" * 300))
        conversation.memory.add(QUESTION, *calls(1, 6))
        conversation.memory.compact(Scribe())
        assert memory(conversation) == ["[up to answer]", "q", *short(calls(1, 6))]

    def test_earlier_turns_and_calls_are_in_one_summary(self) -> None:
        conversation = agent()
        conversation.memory.add(UserMessage("old"), AiMessage("answer" + " word" * 200))
        conversation.memory.add(QUESTION, *calls(1, 9))
        scribe = Scribe()
        conversation.memory.compact(scribe)
        assert scribe.told == ["old", "answer", *short(calls(1, 7))]
        assert memory(conversation) == ["q", "[up to r7]", *short(calls(8, 9))]

    def test_what_is_pinned_stays(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 9))
        conversation.memory.pin(3)
        conversation.memory.compact(Scribe())
        assert memory(conversation) == ["q", "c2", "r2", "[up to r7]", *short(calls(8, 9))]

    def test_after_the_turn_the_usual_rules_go_on(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 12))
        conversation.memory.compact(Scribe())
        conversation.memory.add(AiMessage("done"), UserMessage("q2"), AiMessage("a2" + " word" * 200))
        scribe = Scribe()
        conversation.memory.compact(scribe)
        assert scribe.told == ["q", *short(calls(11, 12)), "done"]
        assert memory(conversation) == ["[up to done]", "q2", "a2"]

    def test_a_purge_of_a_call_erases_it(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 12))
        conversation.memory.compact(Scribe())
        row = conversation.messages.get(position=1)
        conversation.messages.filter(pk=row.pk).update(evicted_at=conversation.created_at)
        list(purge_evicted(row.created_at, Conversation.objects.filter(pk=conversation.pk)))
        assert memory(conversation) == ["q", *short(calls(11, 12))]
        conversation.refresh_from_db()
        scribe = Scribe()
        conversation.memory.compact(scribe)
        assert scribe.told == short(calls(1, 10))[1:]
        assert memory(conversation) == ["q", "[up to r10]", *short(calls(11, 12))]


class TestLateTexts:
    def test_calls_that_come_meanwhile_stay(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 9))
        plan = conversation.memory.plan_compaction()
        assert plan is not None
        conversation.memory.add(*calls(10, 30), AiMessage("done"), UserMessage("q2"))
        conversation.memory.apply_compaction(plan, "late")
        assert "q2" in memory(conversation)
        assert [row.text.split()[0] for row in uncovered(conversation)][:1] in (["c8"], ["q"])

    def test_a_rewind_that_makes_covered_calls_the_latest(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 9))
        plan = conversation.memory.plan_compaction()
        assert plan is not None
        conversation.memory.set([QUESTION, *calls(1, 8)])
        assert conversation.memory.apply_compaction(plan, "late") is None

    def test_a_window_without_the_setting(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 9))
        plan = conversation.memory.plan_compaction()
        assert plan is not None
        conversation.memory.set_window(compact_keep_calls=None)
        assert conversation.memory.apply_compaction(plan, "late") is None


class TestParts:
    @pytest.mark.slow
    @pytest.mark.usefixtures("sdks")
    def test_each_has_whole_calls(self) -> None:
        conversation = agent()
        conversation.memory.add(UserMessage("old"), AiMessage("answer" + " word" * 250))
        conversation.memory.add(QUESTION, *calls(1, 40))
        scribe = Scribe(input_tokens=300)
        memories = []
        for plan, _change in compact(conversation, scribe):
            assert not isinstance(plan.messages[0], ToolExecutionResultMessage)
            memories.append(memory(conversation))
            check_request(conversation)
        assert len(memories) > 3
        assert memories[0][:2] == ["[up to answer]", "q"]
        assert memories[-1] == ["q", "[up to r38]", *short(calls(39, 40))]
        assert scribe.told == ["old", "answer", *short(calls(1, 38))]


class TestTheCallersText:
    def test_up_to_a_call(self) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 9))
        plan = conversation.memory.plan_compaction()
        assert plan is not None
        conversation.memory.apply_text(plan.covers_to, "mine")
        assert memory(conversation) == ["q", "[mine]", *short(calls(8, 9))]

    @pytest.mark.parametrize("through", [0, 3, 17, 18])
    def test_not_up_to_the_question_a_call_alone_or_the_latest(self, through: int) -> None:
        conversation = agent()
        conversation.memory.add(QUESTION, *calls(1, 9))
        with pytest.raises(InvalidValueError, match="through"):
            conversation.memory.apply_text(through, "mine")


class TestAFullWindow:
    def test_keeps_the_question_in_process(self) -> None:
        window = MessageWindowChatMemory(max_messages=5, compact_keep_calls=2)
        window.add(UserMessage("old"), AiMessage("answer"), QUESTION, *calls(1, 9))
        assert short(window.messages()) == ["q", "c8", "r8", "c9", "r9"]

    def test_evicts_the_question_before_the_newest_message_if_both_do_not_fit(self) -> None:
        window = MessageWindowChatMemory(max_messages=2, compact_keep_calls=2)
        window.add(QUESTION, *calls(1, 9))
        assert short(window.messages()) == ["c9", "r9"]

    def test_evicts_calls_before_the_summary_and_that_before_the_question(self) -> None:
        conversation = agent(window="messages", limit=6, compact_keep_calls=1)
        conversation.memory.add(QUESTION, *calls(1, 9))
        plan = plan_compaction(conversation, summary_tokens=10)
        assert plan is not None
        conversation.memory.apply_compaction(plan, "all")
        conversation.memory.add(*calls(10, 12))
        assert memory(conversation) == ["q", "[all]", "c11", "r11", "c12", "r12"]
        conversation.memory.set_window(limit=4)
        assert memory(conversation) == ["q", "[all]", "c12", "r12"]
        conversation.memory.set_window(limit=3)
        assert memory(conversation) == ["q", "c12", "r12"]

    def test_a_smaller_memory_for_a_model_that_refuses_it(self) -> None:
        conversation = agent(limit=4000)
        conversation.memory.add(QUESTION, *calls(1, 40))
        conversation.memory.compact(Scribe())
        conversation.memory.set_window(limit=300)
        assert memory(conversation) == ["q", "[up to r38]", *short(calls(39, 40))]


@pytest.mark.slow
def test_a_replay_knows_it() -> None:
    conversation = agent()
    conversation.memory.add(QUESTION)
    for number in range(1, 41):
        conversation.memory.add(*calls(number, number)[:1])
        conversation.memory.add(*calls(number, number)[1:])
        conversation.memory.compact(Scribe(), if_due=True)
    real, same = conversation.memory.replay(), conversation.memory.replay(compact_keep_calls=2)
    assert (same.requests, same.input_tokens, same.repairs) == (real.requests, real.input_tokens, 0)
    assert conversation.memory.replay(compact_keep_calls=None).compact_keep_calls is None
