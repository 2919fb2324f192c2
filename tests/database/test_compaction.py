"""Summaries of older turns: what they cover, where they stand, when they are applied, and what a failure leaves."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    MessageWindowChatMemory,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    signals,
)
from chatmemory.core.exceptions import UnusableSummaryError
from chatmemory.core.summaries import summary_message, summary_text
from chatmemory.database.change import Change
from chatmemory.database.operations.compact import Lease, due_conversations, due_parts
from chatmemory.database.operations.compaction_plan import plan_compaction, uncovered
from chatmemory.models import Compaction, Conversation, Message, Origin
from chatmemory.retention import purge_evicted
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.database.test_conversations import check_invariants
from tests.support.factories import ConversationFactory
from tests.support.strategies import texts

pytestmark = pytest.mark.django_db

WORDS = " word" * 95
"""Enough that a turn has about 200 tokens: two are worth a summary."""


def turn(number: int) -> list[ChatMessage]:
    return [UserMessage(f"q{number}{WORDS}"), AiMessage(f"a{number}{WORDS}")]


def talk(turns: int, **window: Any) -> Conversation:
    """A conversation of so many turns, of which all fit unless the window says otherwise."""
    conversation = ConversationFactory(**{"limit": 2000, "whole_turns": True} | window)
    for number in range(turns):
        conversation.memory.add(*turn(number))
    return conversation


def short(messages: Any) -> list[str]:
    """The first word of each message; a summary in its frame is its text."""
    return [
        f"[{summary_text(message)}]"
        if (message.text or "").startswith("<summary>")
        else (message.text or ">").split()[0]
        for message in messages
    ]


def memory(conversation: Conversation) -> list[str]:
    return short(conversation.memory.messages())


def summarised(conversation: Conversation, text: str, keep: int = 0) -> Change:
    """Apply a summary of all but what stays."""
    plan = conversation.memory.plan_compaction(keep=keep)
    assert plan is not None
    change = conversation.memory.apply_compaction(plan, text)
    assert change is not None
    return change


def reasons(conversation: Conversation) -> dict[int, str]:
    return dict(conversation.messages.evicted().values_list("position", "eviction_reason"))


def purge(conversation: Conversation, *positions: int) -> None:
    """Erase evicted messages; without positions all."""
    old = timezone.now() - timedelta(days=40)
    Conversation.objects.filter(pk=conversation.pk).update(created_at=old)
    rows = conversation.messages.evicted()
    (rows.filter(position__in=positions) if positions else rows).update(evicted_at=old)
    list(purge_evicted(timezone.now() - timedelta(days=30), Conversation.objects.filter(pk=conversation.pk)))
    conversation.refresh_from_db()


@pytest.fixture(autouse=True)
def _books_are_right(request: pytest.FixtureRequest) -> Any:
    """Whatever a test does, the verification finds nothing afterwards."""
    yield
    if "no_books" not in request.keywords and connection.needs_rollback is False:
        assert list(verify()) == []


class TestRange:
    def test_whole_turns_before_those_that_stay(self) -> None:
        conversation = talk(8)
        plan = conversation.memory.plan_compaction(keep=50)
        assert plan is not None
        assert short(plan.messages) == ["q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3"][: len(plan.messages)]
        assert len(plan.messages) % 2 == 0
        kept = [message for message in conversation.memory.messages() if message not in plan.messages]
        counts = dict(conversation.messages.values_list("text", "token_count"))
        assert sum(counts[message.text or ""] for message in kept) <= 1000
        assert (plan.covers_from, plan.covers_to) == (0, len(plan.messages) - 1)
        assert (plan.previous, plan.previous_tokens, plan.version) == (None, 0, conversation.version)
        assert plan.tokens == sum(counts[message.text or ""] for message in plan.messages)

    @pytest.mark.parametrize("keep", [-1, 101, True, 1.5, "50"])
    def test_what_stays_is_a_percentage(self, keep: Any) -> None:
        with pytest.raises(ValueError, match="keep must be a percentage from 0 to 100"):
            talk(1).memory.plan_compaction(keep=keep)

    def test_too_little_is_not_worth_a_summary(self) -> None:
        """A first one is expected to have 200 tokens, in a window of tokens at most a tenth of the limit."""
        assert talk(2, limit=100_000).memory.plan_compaction(keep=0) is None
        assert talk(3, limit=100_000).memory.plan_compaction(keep=0) is not None
        assert talk(2, limit=900).memory.plan_compaction(keep=0) is not None
        assert ConversationFactory().memory.plan_compaction() is None

    def test_a_summary_is_expected_to_be_as_long_as_the_one_before(self) -> None:
        conversation = talk(5, limit=100_000)
        summarised(conversation, "long" + " word" * 300)
        conversation.memory.add(*turn(5), *turn(6))
        assert conversation.memory.plan_compaction(keep=0) is None
        conversation.memory.add(*turn(7), *turn(8))
        assert conversation.memory.plan_compaction(keep=0) is not None

    def test_never_the_turn_under_way(self) -> None:
        conversation = talk(3)
        conversation.memory.add(UserMessage("now"), AiMessage("let me see", [ToolExecutionRequest("1", "t", "{}")]))
        conversation.memory.add(ToolExecutionResultMessage("1", "t", "x" + WORDS * 5))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["q0", "a0", "q1", "a1", "q2", "a2"]

    def test_never_the_turn_under_way_even_if_its_question_was_evicted(self) -> None:
        conversation = talk(3, limit=900, whole_turns=False)
        conversation.memory.add(UserMessage("now" + WORDS))
        for number in range(7):
            id = str(number)
            conversation.memory.add(AiMessage(f"call{id}", [ToolExecutionRequest(id, "t", "{}")]))
            conversation.memory.add(ToolExecutionResultMessage(id, "t", f"result{id}" + WORDS))
        assert "now" not in memory(conversation)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["q0", "a0", "q1", "a1", "q2", "a2"]
        summarised(conversation, "early")
        assert conversation.memory.plan_compaction(keep=0) is None
        conversation.memory.add(*turn(8))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages)[:3] == ["now", "call0", "result0"]

    def test_nothing_where_no_summary_has_room(self) -> None:
        """Else a model would be paid again and again for texts that are refused."""
        conversation = talk(6, window="messages", limit=1, compact_at=80)
        assert uncovered(conversation).exists()
        assert conversation.memory.plan_compaction() is None
        conversation = talk(6, window="messages", limit=8, whole_turns=False)
        for position in 4, 5, 6, 7:
            assert conversation.memory.plan_compaction(keep=0) is not None
            conversation.memory.pin(position)
        assert conversation.memory.plan_compaction(keep=0) is None

    def test_a_pinned_summary_takes_no_room_from_the_next(self) -> None:
        conversation = talk(6, window="messages", limit=2, whole_turns=False)
        conversation.memory.set_window(limit=6)
        conversation.memory.add(*turn(6))
        summary = summarised(conversation, "first").added[0]
        conversation.memory.pin(summary.position)
        conversation.memory.add(*turn(7), *turn(8))
        conversation.memory.set_window(limit=2)
        summarised(conversation, "second")
        assert memory(conversation) == ["[second]", "a8"]

    def test_no_system_message_and_no_pins(self) -> None:
        conversation = ConversationFactory(limit=2000, whole_turns=True)
        conversation.memory.add(SystemMessage("rules"), *turn(0), *turn(1), *turn(2), *turn(3))
        conversation.memory.pin(4)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["q0", "a0", "q2", "a2"] or short(plan.messages) == [
            "q0",
            "a0",
            "a1",
            "q2",
            "a2",
        ]
        summarised(conversation, "sum")
        assert memory(conversation)[:2] == ["rules", "q1"]
        assert conversation.messages.get(position=4).evicted_in is None

    def test_what_the_window_evicted_is_covered_too(self) -> None:
        conversation = talk(10, limit=900)
        assert memory(conversation)[0] == "q6"
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert plan.has_evicted
        assert short(plan.messages) == [f"{kind}{number}" for number in range(9) for kind in "qa"]
        change = summarised(conversation, "sum")
        assert memory(conversation) == ["[sum]", "q9", "a9"]
        assert {row.position for row in change.evicted} == set(range(12, 18))
        assert set(reasons(conversation).values()) == {"window", "summarized"}
        assert not uncovered(conversation)

    def test_placeholders_give_the_texts_of_their_originals(self) -> None:
        conversation = ConversationFactory(limit=3000, whole_turns=True)
        for number in range(4):
            id = str(number)
            conversation.memory.add(
                UserMessage(f"q{id}"), AiMessage(f"call{id}", [ToolExecutionRequest(id, "t", "{}")])
            )
            conversation.memory.add(ToolExecutionResultMessage(id, "t", f"result{id}" + WORDS * 3), AiMessage(f"a{id}"))
        conversation.memory.clear_tool_results(keep=0)
        assert short(conversation.memory.messages())[2] == "[Old"
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert [text for text in short(plan.messages) if text.startswith("result")] == ["result0", "result1", "result2"]
        assert not any("Old tool result" in (message.text or "") for message in plan.messages)
        summarised(conversation, "sum")
        assert memory(conversation) == ["[sum]", "q3", "call3", "result3", "a3"]


class TestDue:
    def due(self, conversation: Conversation) -> bool:
        conversation.refresh_from_db()
        found = conversation in due_conversations(Conversation.objects.all())
        planned = next(due_parts(conversation), None) is not None
        assert found or not planned
        return planned

    def test_never_without_compact_at(self) -> None:
        assert not self.due(talk(10, limit=900))

    def test_when_compact_at_is_reached(self) -> None:
        conversation = talk(3, compact_at=60)
        assert not self.due(conversation)
        while conversation.retained_tokens < 1200:
            assert not self.due(conversation)
            conversation.memory.add(*turn(9))
        assert self.due(conversation)
        conversation.memory.set_window(compact_at=None)
        assert not self.due(conversation)

    def test_when_messages_of_a_window_of_messages_reach_it(self) -> None:
        conversation = talk(7, window="messages", limit=20, compact_at=80)
        assert not self.due(conversation)
        conversation.memory.add(*turn(6))
        assert self.due(conversation)

    def test_when_the_window_evicted_what_no_summary_covers(self) -> None:
        conversation = talk(9, limit=900, low_water=30, compact_at=100)
        assert conversation.retained_tokens < 900
        assert self.due(conversation)
        conversation.memory.compact(lambda messages, previous: "sum", if_due=True)
        assert not self.due(conversation)

    @pytest.mark.parametrize("compact_at", [0, 101, True, "80", 1.5])
    def test_it_is_a_percentage(self, compact_at: Any) -> None:
        with pytest.raises(ValueError, match="compact_at must be a percentage from 1 to 100, or null"):
            talk(1).memory.set_window(compact_at=compact_at)


class TestWhereItStands:
    def test_a_user_message_behind_the_system_message(self) -> None:
        conversation = ConversationFactory(limit=2000, whole_turns=True)
        conversation.memory.add(*turn(0), *turn(1))
        conversation.memory.set([SystemMessage("rules"), *conversation.memory.messages(), *turn(2)])
        change = summarised(conversation, "They agreed.")
        assert memory(conversation) == ["rules", "[They agreed.]", "q2", "a2"]
        (row,) = change.added
        assert row.message == UserMessage("<summary>\nThey agreed.\n</summary>")
        assert (row.origin, row.covers_from, row.covers_to) == (Origin.SUMMARY, 0, 3)
        assert row.synthetic
        assert row.message not in [said.message for said in conversation.messages.history()]
        assert {reason for _, reason in change.gone} == {"summarized"}
        check_invariants(conversation)

    def test_behind_the_pins_before_it(self) -> None:
        conversation = ConversationFactory(limit=3000)
        conversation.memory.add(SystemMessage("rules"), *turn(0), *turn(1), *turn(2), *turn(3))
        conversation.memory.pin(2)
        conversation.memory.pin(7)
        summarised(conversation, "sum")
        assert memory(conversation) == ["rules", "a0", "[sum]", "q3", "a3"]

    def test_never_between_a_pinned_call_and_its_result(self) -> None:
        """The result is a placeholder, which has a later position than the turns that stay."""
        conversation = ConversationFactory(limit=5000, whole_turns=True)
        conversation.memory.add(
            UserMessage("weather?"), AiMessage("call", [ToolExecutionRequest("1", "weather", "{}")])
        )
        conversation.memory.add(ToolExecutionResultMessage("1", "weather", "sunny" + WORDS))
        conversation.memory.add(*turn(1), *turn(2), *turn(3))
        conversation.memory.clear_tool_results(keep=0)
        conversation.memory.pin(1)
        summarised(conversation, "sum")
        assert memory(conversation) == ["weather?", "call", "[Old", "[sum]", "q3", "a3"]
        assert short_roles(conversation) == ["user", "assistant", "tool", "user", "user", "assistant"]

    def test_the_prefix_changes(self) -> None:
        conversation = talk(4)
        before = conversation.prefix_version
        summarised(conversation, "sum")
        assert conversation.prefix_version == conversation.version > before

    @pytest.mark.slow
    def test_every_past_memory_stays_exact(self) -> None:
        conversation = talk(2)
        past = {conversation.version: conversation.memory.messages()}
        for number in range(2, 8):
            conversation.memory.add(*turn(number))
            past[conversation.version] = conversation.memory.messages()
            summarised(conversation, f"up to {number - 1}")
            past[conversation.version] = conversation.memory.messages()
        assert memory(conversation) == ["[up to 6]", "q7", "a7"]
        assert {version: conversation.memory.at(version) for version in past} == past
        summaries = conversation.messages.filter(origin=Origin.SUMMARY)
        assert list(summaries.order_by("position").values_list("covers_from", "covers_to", "eviction_reason"))[:2] == [
            (0, 3, "summarized"),
            (0, 5, "summarized"),
        ]
        assert conversation.messages.history().count() == 16

    @pytest.mark.slow
    @given(text=texts())
    def test_the_text_comes_back_and_nothing_in_it_closes_the_frame(self, text: str) -> None:
        message = summary_message(text)
        assert summary_text(message) == text
        assert message.text is not None
        assert message.text.lower().count("</summary") == 1
        assert message.text.endswith("\n</summary>")

    @given(
        parts=st.lists(
            st.sampled_from(["</summary>", "<\\/summary>", "<\\\\/SUMMARY", "\n", "<summary>", "</sum", "<", "\\", "x"])
        )
    )
    def test_hostile_texts_come_back_too(self, parts: list[str]) -> None:
        text = "".join(parts)
        message = summary_message(text)
        assert summary_text(message) == text
        assert (message.text or "").lower().count("</summary") == 1


def short_roles(conversation: Conversation) -> list[str]:
    return [item["role"] for item in conversation.memory.to_format("openai")]


class TestLate:
    def test_messages_that_came_meanwhile_stay(self) -> None:
        conversation = talk(5)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.add(*turn(5))
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation) == ["[sum]", "q4", "a4", "q5", "a5"]

    def test_what_was_evicted_meanwhile_is_covered_all_the_same(self) -> None:
        conversation = talk(4, limit=1000)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        for number in range(4, 12):
            conversation.memory.add(*turn(number))
        gone = reasons(conversation)
        assert set(range(8)) <= set(gone)
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation)[0] == "[sum]"
        assert {position: reasons(conversation)[position] for position in gone} == gone
        assert conversation.retained_tokens <= 1000
        assert min(uncovered(conversation).values_list("position", flat=True)) == 6
        summarised(conversation, "and the gap")
        assert memory(conversation) == ["[and the gap]", "q11", "a11"]
        assert not uncovered(conversation)

    def test_the_limit_holds_when_the_summary_takes_more_than_what_is_left_of_its_range(self) -> None:
        conversation = talk(9, limit=800)
        plan = conversation.memory.plan_compaction(keep=80)
        assert plan is not None
        conversation.memory.apply_compaction(plan, "sum" + " word" * 300)
        assert conversation.retained_tokens + 3 <= 800
        assert memory(conversation)[0].startswith("[sum")
        check_invariants(conversation)

    def test_a_plan_is_applied_once(self) -> None:
        conversation = talk(5)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert conversation.memory.apply_compaction(plan, "one") is not None
        version = conversation.version
        assert conversation.memory.apply_compaction(plan, "two") is None
        assert (conversation.version, memory(conversation)[0]) == (version, "[one]")

    def test_what_is_evicted_while_a_plan_is_read_is_told_once(self) -> None:
        """The memory and what it lacks are read by two statements; an addition comes between them."""
        conversation = talk(4, limit=900)
        other = Conversation.objects.get(pk=conversation.pk)
        reads: list[str] = []

        def between(execute: Any, sql: str, *args: Any) -> Any:
            if sql.startswith("SELECT") and "chatmemory_message" in sql:
                reads.append(sql)
                if len(reads) == 2:
                    other.memory.add(*turn(4))
            return execute(sql, *args)

        with connection.execute_wrapper(between):
            plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["q0", "a0", "q1", "a1", "q2", "a2"]

    def test_of_two_plans_one_is_applied(self) -> None:
        conversation = talk(5)
        first = conversation.memory.plan_compaction(keep=0)
        conversation.memory.add(*turn(5))
        second = conversation.memory.plan_compaction(keep=0)
        assert first is not None
        assert second is not None
        assert conversation.memory.apply_compaction(second, "second") is not None
        assert conversation.memory.apply_compaction(first, "first") is None
        assert memory(conversation) == ["[second]", "q5", "a5"]

    def test_not_after_a_rewind(self) -> None:
        conversation = talk(5)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.set(conversation.memory.messages()[:4])
        assert conversation.memory.apply_compaction(plan, "sum") is None
        assert memory(conversation) == ["q0", "a0", "q1", "a1"]

    def test_a_rewind_behind_the_range_does_not_void_it(self) -> None:
        conversation = talk(5)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.set([*conversation.memory.messages()[:-1], AiMessage("better")])
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation) == ["[sum]", "q4", "better"]

    def test_not_after_it_was_cleared(self) -> None:
        conversation = talk(5)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.clear()
        assert conversation.memory.apply_compaction(plan, "sum") is None
        assert memory(conversation) == []
        conversation.memory.add(*turn(6))
        assert conversation.memory.plan_compaction(keep=0) is None

    def test_what_was_cleared_after_all_was_evicted_never_comes_back(self) -> None:
        conversation = talk(8, limit=900, whole_turns=False)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.add(UserMessage("too long" + WORDS * 20))
        assert memory(conversation) == []
        conversation.memory.clear()
        assert conversation.memory.apply_compaction(plan, "sum") is None
        conversation.memory.add(*turn(9), *turn(10))
        plan = conversation.memory.plan_compaction(keep=0)
        assert short(plan.messages if plan else []) in ([], ["q9", "a9"])

    @pytest.mark.parametrize("keep_history", [True, False])
    def test_not_after_the_covered_were_taken_out(self, keep_history: bool) -> None:
        with override_settings(CHATMEMORY={"KEEP_HISTORY": keep_history}):
            conversation = talk(5)
            plan = conversation.memory.plan_compaction(keep=0)
            assert plan is not None
            conversation.memory.set(conversation.memory.messages()[2:])
            assert conversation.memory.apply_compaction(plan, "sum") is None
            assert memory(conversation)[0] == "q1"

    def test_not_after_they_were_erased(self) -> None:
        conversation = talk(9, limit=900)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        purge(conversation, 3)
        assert conversation.memory.apply_compaction(plan, "sum") is None

    def test_not_after_the_conversation_was_erased(self) -> None:
        conversation = talk(5)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        Conversation.objects.filter(pk=conversation.pk).delete()
        with pytest.raises(Conversation.DoesNotExist):
            conversation.memory.apply_compaction(plan, "sum")

    def test_what_was_pinned_meanwhile_stays(self) -> None:
        conversation = talk(5)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.pin(2)
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation) == ["q1", "[sum]", "q4", "a4"]

    def test_a_system_message_that_changed_meanwhile_stays_first(self) -> None:
        conversation = talk(6, always_keep_system_message_first=True)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.add(SystemMessage("Be brief."))
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation) == ["Be", "[sum]", "q5", "a5"]

    def test_a_smaller_window_meanwhile(self) -> None:
        conversation = talk(8, limit=4000)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.set_window(limit=400)
        with pytest.raises(UnusableSummaryError, match="half of the limit"):
            conversation.memory.apply_compaction(plan, "sum" + " word" * 200)
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation) == ["[sum]", "q7", "a7"]
        conversation.memory.set_window(limit=205)
        assert memory(conversation)[-1] == "a7"
        assert conversation.retained_tokens + 3 <= 205


class TestSummaryBefore:
    def test_it_is_taken_in(self) -> None:
        conversation = talk(4)
        summarised(conversation, "one")
        conversation.memory.add(*turn(4), *turn(5))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert (plan.previous, short(plan.messages)) == ("one", ["q3", "a3", "q4", "a4"])
        assert (plan.covers_from, plan.covers_to) == (0, 10)
        change = conversation.memory.apply_compaction(plan, "two")
        assert change is not None
        assert [row.origin for row in change.evicted].count(Origin.SUMMARY) == 1
        assert memory(conversation) == ["[two]", "q5", "a5"]

    def test_also_if_the_window_has_evicted_it(self) -> None:
        conversation = talk(4)
        summarised(conversation, "one" + " word" * 100)
        conversation.memory.add(UserMessage("so much" + " word" * 1920))
        assert memory(conversation) == ["so"]
        summary = conversation.messages.get(origin=Origin.SUMMARY)
        assert summary.eviction_reason == "window"
        conversation.memory.add(*turn(5))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert plan.previous == summary_text(summary.message)
        assert short(plan.messages)[-1] == "so"

    def test_it_must_be_smaller_with_the_one_before_counted(self) -> None:
        conversation = talk(4)
        summarised(conversation, "one" + " word" * 300)
        conversation.memory.add(*turn(4), *turn(5), *turn(6))
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        with pytest.raises(UnusableSummaryError, match="smaller"):
            conversation.memory.apply_compaction(plan, "two" + " word" * plan.tokens)
        larger_than_what_is_new = "two" + " word" * (plan.tokens - plan.previous_tokens)
        assert conversation.memory.apply_compaction(plan, larger_than_what_is_new) is not None


class TestFailures:
    def fails(self, conversation: Conversation, error: type[Exception], **kwargs: Any) -> None:
        """Nothing but the note of the failure changes."""
        conversation.refresh_from_db()
        before = conversation.version, conversation.memory.messages(), conversation.messages.count()
        with pytest.raises(error):
            conversation.memory.compact(**kwargs)
        conversation.refresh_from_db()
        assert (conversation.version, conversation.memory.messages(), conversation.messages.count()) == before

    @pytest.mark.slow
    @pytest.mark.django_db(transaction=True)
    def test_the_pauses_after_failures_and_the_signal(self) -> None:
        conversation = talk(9, limit=900, compact_at=50)
        heard: list[Any] = []

        def hear(sender: Any, **kwargs: Any) -> None:
            heard.append(kwargs)

        def fail(messages: Any, previous: Any) -> str:
            raise OSError("the model is away")

        signals.compaction_failed.connect(hear)
        try:
            for number, minutes in enumerate([1, 5, 30, 30], start=1):
                self.fails(conversation, OSError, summarizer=fail, if_due=True)
                row = Compaction.objects.get(conversation=conversation)
                assert (row.failures, row.error) == (number, "OSError: the model is away")
                assert row.leased_until is None
                assert row.retry_at is not None
                assert row.failed_at is not None
                assert abs(row.retry_at - row.failed_at - timedelta(minutes=minutes)) < timedelta(seconds=2)
                assert conversation not in due_conversations(Conversation.objects.all())
                assert conversation.memory.compact(fail, if_due=True) is None
                assert len(heard) == number
                Compaction.objects.update(retry_at=timezone.now() - timedelta(minutes=1))
                assert conversation in due_conversations(Conversation.objects.all())
        finally:
            signals.compaction_failed.disconnect(hear)
        assert heard[0]["conversation"] == conversation
        assert isinstance(heard[0]["error"], OSError)
        assert short(heard[0]["plan"].messages)[0] == "q0"
        assert conversation.memory.compact(lambda messages, previous: "sum", if_due=True) is not None
        row = Compaction.objects.get(conversation=conversation)
        assert (row.failures, row.error, row.retry_at, row.failed_at) == (0, "", None, None)

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("text", ["", "  \n\t", "x" * 50_000, None, 7])
    def test_what_is_no_summary_is_a_failure(self, text: Any) -> None:
        conversation = talk(6)
        self.fails(conversation, UnusableSummaryError, summarizer=lambda messages, previous: text, keep=0)
        assert Compaction.objects.get(conversation=conversation).failures == 1

    @pytest.mark.django_db(transaction=True)
    def test_an_error_that_has_no_text_is_a_failure(self) -> None:
        class NamelessError(Exception):
            def __str__(self) -> str:
                raise KeyError("reason")

        def fail(messages: Any, previous: str | None) -> str:
            raise NamelessError

        conversation = talk(6)
        with pytest.raises(NamelessError):
            conversation.memory.compact(fail, keep=0)
        noted = Compaction.objects.get()
        assert (noted.failures, noted.error) == (1, "NamelessError: without a text")
        assert noted.retry_at is not None

    def test_an_explicit_call_does_not_wait(self) -> None:
        conversation = talk(6)
        self.fails(conversation, UnusableSummaryError, summarizer=lambda messages, previous: "")
        assert conversation.memory.compact(lambda messages, previous: "sum", keep=0) is not None

    @pytest.mark.django_db(transaction=True)
    def test_a_summary_must_leave_room(self) -> None:
        conversation = talk(9, limit=900)
        self.fails(conversation, UnusableSummaryError, summarizer=lambda *_: "word " * 460)
        assert conversation.memory.compact(lambda *_: "word " * 430) is not None

    def test_not_within_a_transaction(self) -> None:
        conversation = talk(5)
        with transaction.atomic(), pytest.raises(RuntimeError, match="in a transaction"):
            conversation.memory.compact(lambda *_: "sum")


@pytest.mark.django_db(transaction=True)
class TestTwoWorkers:
    def test_one_has_the_lease(self) -> None:
        conversation = talk(6)
        other = Conversation.objects.get(pk=conversation.pk)
        tried: list[Any] = []

        def write(messages: Any, previous: Any) -> str:
            tried.append(other.memory.compact(lambda *_: pytest.fail("two at once"), keep=0))
            return "sum"

        assert conversation.memory.compact(write, keep=0) is not None
        assert tried == [None]
        assert memory(conversation) == ["[sum]", "q5", "a5"]

    def test_while_one_writes_no_turn_waits(self) -> None:
        conversation = talk(6)

        def write(messages: Any, previous: Any) -> str:
            assert not connection.in_atomic_block
            Conversation.objects.get(pk=conversation.pk).memory.add(*turn(6))
            return "sum"

        assert conversation.memory.compact(write, keep=0) is not None
        assert memory(conversation) == ["[sum]", "q5", "a5", "q6", "a6"]

    def test_a_lease_that_is_over_is_taken_by_another(self) -> None:
        conversation = talk(6)
        other = Conversation.objects.get(pk=conversation.pk)

        def too_late(messages: Any, previous: Any) -> str:
            Compaction.objects.update(leased_until=timezone.now() - timedelta(minutes=1))
            assert other.memory.compact(lambda *_: "faster", keep=0) is not None
            return "slower"

        assert conversation.memory.compact(too_late, keep=0) is None
        assert memory(conversation) == ["[faster]", "q5", "a5"]

    def test_who_was_too_slow_does_not_end_the_lease_of_another(self) -> None:
        conversation = talk(6)

        def too_slow(messages: Any, previous: Any) -> str:
            Compaction.objects.update(leased_until=timezone.now() - timedelta(minutes=1))
            assert Lease(conversation, "default", 600).try_take(also_after_failure=True)
            return "sum"

        assert conversation.memory.compact(too_slow, keep=0) is not None
        conversation.memory.add(*turn(6), *turn(7), *turn(8))
        assert conversation.memory.compact(lambda *_: pytest.fail("two at once"), keep=0) is None

    def test_threads(self) -> None:
        conversation = talk(8)
        begun, results = threading.Barrier(4), []

        def work(number: int) -> None:
            try:
                begun.wait()
                own = Conversation.objects.get(pk=conversation.pk)
                results.append(own.memory.compact(lambda *_: f"by {number}", keep=0))
            finally:
                connections.close_all()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len([change for change in results if change is not None]) == 1
        assert len(results) == 4
        conversation.refresh_from_db()
        check_invariants(conversation)
        assert conversation.messages.filter(origin=Origin.SUMMARY).count() == 1

    def test_async_functions(self) -> None:
        conversation = talk(5)

        async def write(messages: Any, previous: Any) -> str:
            return f"{len(messages)} messages"

        assert async_to_sync(conversation.memory.acompact)(write, keep=0) is not None
        assert memory(conversation) == ["[8 messages]", "q4", "a4"]
        assert conversation.memory.compact(write, keep=0) is None


class TestErasing:
    def test_a_summary_goes_with_what_it_was_made_from(self) -> None:
        conversation = talk(6)
        summarised(conversation, "secret")
        version = conversation.version
        purge(conversation, 3)
        assert memory(conversation) == ["q5", "a5"]
        assert not Message.objects.filter(text__contains="secret").exists()
        assert conversation.version == conversation.prefix_version == version + 1
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert plan.previous is None
        assert "a1" not in short(plan.messages)
        summarised(conversation, "what is left")
        assert memory(conversation) == ["[what is left]", "q5", "a5"]

    def test_the_next_one_takes_in_all_that_is_left(self) -> None:
        conversation = talk(6)
        summarised(conversation, "secret")
        purge(conversation, 3)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert short(plan.messages) == ["q0", "a0", "q1", "q2", "a2", "q3", "a3", "q4", "a4"]

    def test_a_later_one_goes_too_and_an_earlier_one_is_taken_up_again(self) -> None:
        conversation = talk(4)
        summarised(conversation, "clean")
        conversation.memory.add(*turn(4), *turn(5), *turn(6))
        summarised(conversation, "secret")
        purge(conversation, 7)
        assert [row.text for row in conversation.messages.filter(origin=Origin.SUMMARY)] == [
            "<summary>\nclean\n</summary>"
        ]
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert plan.previous == "clean"
        assert short(plan.messages) == ["q3", "q4", "a4", "q5", "a5"]

    def test_all_that_took_it_in_go(self) -> None:
        conversation = talk(4)
        summarised(conversation, "secret one")
        conversation.memory.add(*turn(4), *turn(5), *turn(6))
        summarised(conversation, "secret two")
        purge(conversation, 1)
        assert not Message.objects.filter(text__contains="secret").exists()

    def test_what_was_evicted_for_other_turns_changes_nothing(self) -> None:
        conversation = talk(4, limit=900)
        summarised(conversation, "early")
        for number in range(4, 10):
            conversation.memory.add(*turn(number))
        gone = min(uncovered(conversation).values_list("position", flat=True))
        purge(conversation, gone)
        assert memory(conversation)[0] == "[early]"

    def test_a_summary_of_what_was_written_back(self) -> None:
        """A foreign memory undid a summary, and the next was made of copies: they are its sources."""
        conversation = talk(6)
        read = conversation.memory.messages()
        summarised(conversation, "undone")
        DjangoChatMemoryStore(owner=conversation.owner).update_messages(conversation.memory_id, read)
        conversation.refresh_from_db()
        assert memory(conversation) == short(read)
        summarised(conversation, "secret")
        copy = conversation.messages.filter(origin=Origin.REWRITE).order_by("position").first()
        assert copy is not None
        assert copy.eviction_reason == "summarized"
        purge(conversation, copy.position)
        assert not Message.objects.filter(text__contains="secret").exists()

    def test_a_message_that_was_pinned_too_late(self) -> None:
        """It stayed, but the summary had been made from it already."""
        conversation = talk(6)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        conversation.memory.pin(2)
        conversation.memory.apply_compaction(plan, "secret")
        conversation.memory.set([message for message in conversation.memory.messages() if short([message]) != ["q1"]])
        purge(conversation, 2)
        assert not Message.objects.filter(text__contains="secret").exists()

    def test_what_an_earlier_one_stands_for_is_not_told_again(self) -> None:
        """The window had evicted it, so nothing but the earlier summary's range says that it is told."""
        conversation = talk(6, limit=900)
        conversation.memory.set_window(limit=4000)
        summarised(conversation, "clean")
        conversation.memory.add(*turn(6), *turn(7), *turn(8))
        summarised(conversation, "secret")
        purge(conversation, 13)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert plan.previous == "clean"
        assert short(plan.messages) == ["q5", "a5", "a6", "q7", "a7"]

    def test_what_was_taken_out_with_its_summary_does_not_come_back(self) -> None:
        conversation = talk(5)
        summarised(conversation, "unwanted")
        conversation.memory.set([AiMessage(f"edited{WORDS}"), *conversation.memory.messages()[2:]])
        conversation.memory.add(*turn(5), *turn(6), *turn(7))
        purge(conversation, 1)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert plan.previous is None
        assert short(plan.messages) == ["edited", "a4", "q5", "a5", "q6", "a6"]

    def test_nor_the_summary_before_it(self) -> None:
        conversation = talk(8)
        summarised(conversation, "unwanted", keep=60)
        summarised(conversation, "also unwanted", keep=30)
        assert memory(conversation) == ["[also unwanted]", "q6", "a6", "q7", "a7"]
        conversation.memory.set(conversation.memory.messages()[1:])
        purge(conversation, 6)
        plan = plan_compaction(conversation, keep=0, summary_tokens=1)
        assert plan is not None
        assert plan.previous is None
        assert short(plan.messages) == ["q6", "a6"]

    def test_a_summary_of_what_was_put_before_all_others(self) -> None:
        conversation = talk(1)
        conversation.memory.set([*turn(-3), *turn(-2), *turn(-1), *conversation.memory.messages()])
        summarised(conversation, "secret")
        assert memory(conversation) == ["[secret]", "q0", "a0"]
        purge(conversation)
        assert memory(conversation) == ["q0", "a0"]

    def test_in_one_transaction(self) -> None:
        conversation = talk(6)
        summarised(conversation, "secret")
        purge(conversation)
        assert list(conversation.messages.values_list("position", flat=True)) == [10, 11]
        assert memory(conversation) == ["q5", "a5"]


class TestPinsLater:
    def test_what_was_unpinned_and_evicted_goes_into_the_next_summary(self) -> None:
        conversation = talk(4, limit=900)
        conversation.memory.set_window(limit=1200)
        conversation.memory.pin(2 + conversation.messages.retained().first().position)
        pinned = conversation.messages.pinned().get()
        summarised(conversation, "without it")
        conversation.memory.unpin(pinned.position)
        for number in range(4, 12):
            conversation.memory.add(*turn(number))
        assert conversation.messages.get(pk=pinned.pk).eviction_reason == "window"
        assert pinned.position in uncovered(conversation).values_list("position", flat=True)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert pinned.message in plan.messages


def test_a_pin_behind_a_summary_does_not_keep_it() -> None:
    """A summary is no question: an answer whose own question was taken out belongs to no turn that it begins."""
    conversation = talk(4, limit=860)
    plan = conversation.memory.plan_compaction(keep=50)
    assert plan is not None
    assert conversation.memory.apply_compaction(plan, "sum" + WORDS * 3 + " word" * 50) is not None
    conversation.memory.set([message for message in conversation.memory.messages() if short([message]) != ["q2"]])
    answer = conversation.messages.retained().order_by("memory_order")[1]
    assert answer.type == "AI"
    assert conversation.memory.pin(answer.position).memory.version == conversation.version


class TestKeepHistory:
    def test_what_is_covered_is_deleted(self) -> None:
        with override_settings(CHATMEMORY={"KEEP_HISTORY": False}):
            conversation = talk(10, limit=1100)
            plan = conversation.memory.plan_compaction(keep=0)
            assert plan is not None
            assert short(plan.messages)[0] == memory(conversation)[0] != "q0"
            assert conversation.memory.apply_compaction(plan, "sum") is not None
            assert memory(conversation) == ["[sum]", "q9", "a9"]
            assert conversation.messages.count() == 3
            for number in range(10, 14):
                conversation.memory.add(*turn(number))
            summarised(conversation, "more")
            assert conversation.messages.filter(origin=Origin.SUMMARY).count() == 1

    def test_late_is_fine(self) -> None:
        with override_settings(CHATMEMORY={"KEEP_HISTORY": False}):
            conversation = talk(5, limit=1100)
            plan = conversation.memory.plan_compaction(keep=0)
            assert plan is not None
            for number in range(5, 12):
                conversation.memory.add(*turn(number))
            assert conversation.memory.apply_compaction(plan, "sum") is not None
            assert memory(conversation)[0] == "[sum]"


class TestForeignMemories:
    def test_one_that_writes_back_undoes_a_summary_and_loses_nothing(self) -> None:
        conversation = talk(6)
        foreign = MessageWindowChatMemory(
            id=conversation.memory_id, max_messages=50, store=DjangoChatMemoryStore(owner=conversation.owner)
        )
        read = foreign.messages()
        summarised(conversation, "sum")
        foreign.set([*read, *turn(6)])
        conversation.refresh_from_db()
        assert conversation.memory.messages() == [*read, *turn(6)]
        check_invariants(conversation)
        plan = conversation.memory.plan_compaction(keep=0)
        assert plan is not None
        assert plan.previous is None
        assert short(plan.messages) == [f"{kind}{number}" for number in range(6) for kind in "qa"]

    def test_one_that_adds_keeps_a_summary(self) -> None:
        conversation = talk(6)
        summarised(conversation, "sum")
        foreign = MessageWindowChatMemory(
            id=conversation.memory_id, max_messages=50, store=DjangoChatMemoryStore(owner=conversation.owner)
        )
        foreign.add(*turn(6))
        assert memory(conversation) == ["[sum]", "q5", "a5", "q6", "a6"]
        assert conversation.messages.retained().get(origin=Origin.SUMMARY)


def test_plans_name_what_they_expect() -> None:
    conversation = talk(3, limit=100_000)
    assert plan_compaction(conversation, keep=0, summary_tokens=250) is None
    assert plan_compaction(conversation, keep=0, summary_tokens=150) is not None
