"""Summaries that come late, after something took the place of what they cover, or came between."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, connections
from django.test import override_settings

from chatmemory import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.database.operations.compaction_plan import CompactionPlan, uncovered
from chatmemory.formats.openai import to_openai
from chatmemory.formats.validity import Repair
from chatmemory.models import Compaction, Conversation
from chatmemory.personal_data import erase_user
from chatmemory.verification import verify
from tests.database.test_compaction import memory
from tests.support.factories import ConversationFactory
from tests.support.full_windows import turn

pytestmark = pytest.mark.django_db

PLACEHOLDER = "[Old"


def agent(turns: int, **window: Any) -> Conversation:
    """A conversation with a call in each turn, all of which fit unless the window says otherwise."""
    conversation: Conversation = ConversationFactory(**{"limit": 2000, "whole_turns": True} | window)
    for number in range(turns):
        conversation.memory.add(*turn(number))
    return conversation


def planned(conversation: Conversation, keep: int = 0) -> CompactionPlan:
    plan = conversation.memory.plan_compaction(keep=keep)
    assert plan is not None
    return plan


def check_sendable(conversation: Conversation) -> None:
    """The memory is sent as it is, and its rows are right."""
    repairs: list[Repair] = []
    to_openai(conversation.memory.messages(), repairs.append)
    assert repairs == []
    assert list(verify()) == []


class TestResultsThatWereCleared:
    def test_by_the_window(self) -> None:
        """The settings that are recommended for agents, and one turn while the summary is written."""
        conversation = agent(10, limit=1000, low_water=70, keep_tool_results=3)
        conversation.memory.set_window(limit=1100)
        plan = planned(conversation)
        conversation.memory.add(*turn(10, words=400))
        assert any(row.eviction_reason == "tool_cleared" for row in conversation.messages.evicted())
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation)[0] == "[sum]"
        check_sendable(conversation)

    def test_at_once(self) -> None:
        conversation = agent(6)
        plan = planned(conversation)
        conversation.memory.clear_tool_results(keep=0)
        change = conversation.memory.apply_compaction(plan, "sum")
        assert change is not None
        assert memory(conversation) == ["[sum]", "question", ">", "word", "answer"]
        placeholders = [row for row in change.evicted if row.origin == "cleared"]
        assert [row.eviction_reason for row in placeholders] == ["summarized"] * 5
        check_sendable(conversation)

    def test_the_next_summary_tells_none_of_them_again(self) -> None:
        conversation = agent(6)
        plan = planned(conversation)
        conversation.memory.clear_tool_results(keep=0)
        conversation.memory.apply_compaction(plan, "sum")
        for number in range(6, 12):
            conversation.memory.add(*turn(number))
        told = planned(conversation).messages
        assert len([message for message in told if isinstance(message, ToolExecutionResultMessage)]) == 6
        assert not any(PLACEHOLDER in (message.text or "") for message in told)

    def test_where_no_history_is_kept(self) -> None:
        with override_settings(CHATMEMORY={"KEEP_HISTORY": False}):
            conversation = agent(6)
            plan = planned(conversation)
            conversation.memory.clear_tool_results(keep=0)
            assert conversation.memory.apply_compaction(plan, "sum") is not None
            assert memory(conversation) == ["[sum]", "question", ">", "word", "answer"]
            check_sendable(conversation)

    def test_and_evicted_then(self) -> None:
        conversation = agent(6)
        plan = planned(conversation)
        conversation.memory.clear_tool_results(keep=0)
        conversation.memory.set_window(limit=150)
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        check_sendable(conversation)

    def test_and_pinned_then(self) -> None:
        """The unit stays whole, as everything that was pinned meanwhile."""
        conversation = agent(6)
        plan = planned(conversation)
        conversation.memory.clear_tool_results(keep=0)
        placeholder = conversation.messages.retained()[2]
        assert placeholder.origin == "cleared"
        conversation.memory.pin(placeholder.position)
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation)[:4] == ["question", ">", PLACEHOLDER, "[sum]"]
        check_sendable(conversation)

    def test_and_taken_out_then(self) -> None:
        """Nothing comes back that somebody took out, even if they took out what stood for it."""
        conversation = agent(6)
        plan = planned(conversation)
        conversation.memory.clear_tool_results(keep=0)
        given = conversation.memory.messages()
        conversation.memory.set([given[0], *given[3:]])
        assert conversation.memory.apply_compaction(plan, "sum") is None

    def test_and_taken_out_before_the_plan(self) -> None:
        conversation = agent(8)
        conversation.memory.clear_tool_results(keep=0)
        given = conversation.memory.messages()
        conversation.memory.set([*given[:4], *given[8:]])
        told = planned(conversation).messages
        assert [message.id for message in told if isinstance(message, ToolExecutionResultMessage)] == [
            f"call {number}" for number in (0, 2, 3, 4, 5, 6)
        ]
        assert not uncovered(conversation).filter(position=6).exists()
        conversation.memory.apply_compaction(planned(conversation), "sum")
        check_sendable(conversation)

    @pytest.mark.slow
    def test_and_copied_then(self) -> None:
        """A rewrite that finds no room between two messages has to copy the one behind: the placeholder."""
        conversation = agent(6)
        plan = planned(conversation)
        conversation.memory.clear_tool_results(keep=0)
        squeeze(conversation, before=2)
        assert conversation.messages.retained()[2].origin == "copy"
        assert conversation.memory.apply_compaction(plan, "sum") is None
        check_sendable(conversation)

    @pytest.mark.slow
    def test_and_copied_before_the_summary_is_planned(self) -> None:
        conversation = agent(6)
        conversation.memory.clear_tool_results(keep=0)
        squeeze(conversation, before=2)
        copy = conversation.messages.retained()[2]
        assert copy.origin == "copy"
        assert copy.text.startswith(PLACEHOLDER)
        told = planned(conversation).messages
        results = [message for message in told if isinstance(message, ToolExecutionResultMessage)]
        assert [(result.id, result.text) for result in results] == [(f"call {n}", "word " * 60) for n in range(5)]
        assert [told.index(result) for result in results] == [2, 6, 10, 14, 18]
        conversation.memory.apply_compaction(planned(conversation), "sum")
        check_sendable(conversation)

    @pytest.mark.slow
    def test_after_it_was_copied(self) -> None:
        conversation = agent(6)
        plan = planned(conversation)
        squeeze(conversation, before=2)
        conversation.memory.clear_tool_results(keep=0)
        assert conversation.messages.retained()[2].origin == "cleared"
        conversation.memory.apply_compaction(plan, "sum")
        check_sendable(conversation)

    @pytest.mark.slow
    def test_copies_of_before(self) -> None:
        conversation = agent(6)
        squeeze(conversation, before=2)
        plan = planned(conversation)
        conversation.memory.clear_tool_results(keep=0)
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert memory(conversation) == ["[sum]", "question", ">", "word", "answer"]
        check_sendable(conversation)


class TestRewindsAndRewrites:
    def test_the_question_under_way_never_leaves(self) -> None:
        """The user goes back to a question that was not answered: now the model is to answer that one."""
        conversation = agent(6)
        conversation.memory.add(UserMessage("unanswered"))
        conversation.memory.add(*turn(7))
        plan = planned(conversation)
        assert UserMessage("unanswered") in plan.messages
        conversation.memory.set(conversation.memory.messages()[:25])
        before = conversation.memory.messages()
        assert before[-1] == UserMessage("unanswered")
        assert conversation.memory.apply_compaction(plan, "sum") is None
        assert conversation.memory.messages() == before
        conversation.memory.add(AiMessage("late"), *turn(8))
        assert conversation.memory.apply_compaction(plan, "sum") is not None

    @pytest.mark.slow
    def test_a_result_that_stands_behind_its_call_since_keeps_it(self) -> None:
        """The user had asked on before the result came, and takes that question back."""
        conversation = agent(6)
        question, call, result, answer = turn(6)
        conversation.memory.add(question, call, UserMessage("hurry"), result, answer, *turn(7, words=5))
        plan = planned(conversation, keep=6)
        assert plan.messages[-1] == call
        given = conversation.memory.messages()
        given.remove(UserMessage("hurry"))
        conversation.memory.set(given)
        assert conversation.memory.apply_compaction(plan, "sum") is not None
        assert conversation.memory.messages()[:2] == [call, result]
        assert memory(conversation)[2] == "[sum]"
        check_sendable(conversation)


class TestRoom:
    """No summary is asked for that the window would evict at once."""

    @pytest.mark.parametrize("whole_turns", [False, True])
    def test_beside_a_turn_that_takes_the_window(self, whole_turns: bool) -> None:
        conversation = agent(8, limit=1000, whole_turns=whole_turns)
        conversation.memory.add(UserMessage("so much" + " word" * 940))
        assert memory(conversation)[-1] == "so"
        assert uncovered(conversation).exists()
        assert conversation.memory.plan_compaction(keep=0) is None
        conversation.memory.add(*turn(9))
        conversation.memory.apply_compaction(planned(conversation), "sum")
        assert memory(conversation)[0] == "[sum]"

    def test_if_older_calls_of_the_turn_can_leave_for_it(self) -> None:
        conversation = agent(8, limit=1000)
        calls = [message for number in range(4) for message in turn(10 + number, words=200)[1:3]]
        conversation.memory.add(UserMessage("a long task"), *calls)
        plan = planned(conversation)
        assert plan.previous is None
        assert len(plan.messages) == 32
        conversation.memory.apply_compaction(plan, "sum" + " word" * 90)
        assert memory(conversation)[0].startswith("[sum")

    def test_in_a_window_of_messages(self) -> None:
        conversation = agent(8, window="messages", limit=4, whole_turns=False)
        assert conversation.memory.plan_compaction(keep=0) is None
        conversation.memory.add(UserMessage("next"))
        conversation.memory.apply_compaction(planned(conversation), "sum")
        assert memory(conversation) == ["[sum]", "next"]


@pytest.mark.django_db(transaction=True)
class TestErasedConversations:
    @pytest.mark.parametrize("if_due", [False, True])
    def test_before(self, if_due: bool) -> None:
        conversation = agent(6, compact_at=10)
        Conversation.objects.filter(pk=conversation.pk).delete()
        with pytest.raises(Conversation.DoesNotExist):
            conversation.memory.compact(lambda *_: pytest.fail("asked"), if_due=if_due)
        assert not Compaction.objects.exists()

    def test_while_the_lease_is_taken(self) -> None:
        conversation = agent(6)
        erased = []

        def erase(execute: Any, sql: str, *args: Any) -> Any:
            if sql.startswith("INSERT") and "chatmemory_compaction" in sql and not erased:
                erased.append(sql)
                erase_elsewhere(conversation)
            return execute(sql, *args)

        with connection.execute_wrapper(erase), pytest.raises(Conversation.DoesNotExist):
            conversation.memory.compact(lambda *_: pytest.fail("asked"), keep=0)
        assert erased
        assert not Compaction.objects.exists()

    @pytest.mark.parametrize("fails", [False, True])
    @pytest.mark.parametrize("how", ["erase", "anonymise"])
    def test_while_the_summarizer_works(self, fails: bool, how: str) -> None:
        conversation = agent(6)

        def write(messages: Any, previous: Any) -> str:
            erase_user(conversation.owner, how=how)
            if fails:
                raise OSError(f"cannot summarise {messages[0].text}")
            return "sum"

        if how == "anonymise" and not fails:
            assert conversation.memory.compact(write, keep=0) is None
        else:
            with pytest.raises(Conversation.DoesNotExist):
                conversation.memory.compact(write, keep=0)
        assert not Compaction.objects.exists()

    def test_by_this_very_instance(self) -> None:
        conversation = agent(6)
        conversation.delete()
        with pytest.raises(Conversation.DoesNotExist):
            conversation.memory.compact(lambda *_: pytest.fail("asked"), keep=0)

    def test_never_saved(self) -> None:
        with pytest.raises(ValueError, match="save the conversation before"):
            Conversation().memory.compact(lambda *_: pytest.fail("asked"))


def erase_elsewhere(conversation: Conversation) -> None:
    """Erase a conversation as another process does, in the same transaction where the database allows only one."""
    if connection.vendor == "sqlite":
        Conversation.objects.filter(pk=conversation.pk).delete()
        return

    def erase() -> None:
        Conversation.objects.filter(pk=conversation.pk).delete()
        connections.close_all()

    thread = threading.Thread(target=erase)
    thread.start()
    thread.join()


def squeeze(conversation: Conversation, before: int) -> None:
    """Insert messages before the one at an index until there is no room and that one is copied; take them out again."""
    given = conversation.memory.messages()
    inserted: list[ChatMessage] = []
    while conversation.messages.retained()[before + len(inserted)].origin != "copy":
        inserted.append(UserMessage(f"between {len(inserted)}"))
        conversation.memory.set([*given[:before], *inserted, *given[before:]])
    conversation.memory.set(given)
