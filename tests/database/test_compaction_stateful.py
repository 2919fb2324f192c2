"""Summaries between everything else that happens to a memory, in any order, beside a second model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.exceptions import UnusableSummaryError
from chatmemory.core.summaries import summary_text
from chatmemory.database.operations.compaction_plan import CompactionPlan, plan_compaction, uncovered
from chatmemory.models import Conversation
from chatmemory.retention import purge_evicted
from chatmemory.verification import verify
from tests.database.test_conversations import check_invariants
from tests.support import budget
from tests.support.naive_compaction import NaiveCompaction, NaivePlan, RefusedError
from tests.support.naive_window import Item, Step, is_system
from tests.support.window_cases import calls_of, left_behind, naive_settings, windows

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

sizes = st.sampled_from([0, 2, 10, 25])
turns = st.tuples(sizes, st.sampled_from(["answer", "answer", "nothing", "call", "calls", "system"]), sizes)

rounds = st.lists(sizes, min_size=1, max_size=6)

changes = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.integers(1, 40) | st.integers(20, 800),
        "low_water": st.integers(1, 100),
        "whole_turns": st.booleans(),
        "keep_tool_results": st.none() | st.integers(0, 3),
        "compact_keep_calls": st.none() | st.integers(1, 3),
    },
)


def meanwhile() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """One of the rules below, and its arguments."""
    rules: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "say": {"turn": turns},
        "go_on": {"rounds": rounds},
        "clear_tool_results": {"keep": st.integers(0, 1)},
        "change_window": {"changed": changes},
        "pin": {"index": st.integers(0, 20), "pinned": st.booleans()},
        "rewind": {"rewound": st.integers(1, 4), "new": st.booleans()},
        "leave_out": {"left_out": st.sets(st.integers(0, 8), min_size=1, max_size=2)},
    }
    return st.one_of(*[st.tuples(st.just(name), st.fixed_dictionaries(given)) for name, given in rules.items()])


class Compactions(RuleBasedStateMachine):
    """One conversation, and plans of summaries that wait for their texts."""

    @initialize(window=windows(), wide=st.integers(1, 4))
    def begin(self, window: dict[str, Any], wide: int) -> None:
        window = window | {"limit": window["limit"] * wide}
        note(f"{window}")
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.conversation = Conversation.objects.create(model="gpt-4o", **window)
        Conversation.objects.filter(pk=self.conversation.pk).update(created_at=LONG_AGO)
        self.model = NaiveCompaction(naive_settings(window))
        self.past: dict[int, list[Item]] = {0: []}
        self.read: list[list[ChatMessage]] = []
        self.plans: list[tuple[CompactionPlan, NaivePlan]] = []
        self.number = 0
        self.calls: dict[int, int] = {}

    def name(self) -> str:
        self.number += 1
        return f"m{self.number}"

    @property
    def memory(self) -> Any:
        return self.conversation.memory

    @rule(turn=turns)
    def say(self, turn: tuple[int, str, int]) -> None:
        """A question and what follows, one by one as it is said."""
        words, kind, more = turn
        id = self.name()
        self.add(UserMessage(f"{id} asks" + " word" * words))
        match kind:
            case "answer":
                self.add(AiMessage(f"{id} answers" + " word" * more))
            case "call" | "calls":
                ids = [f"{id}.{which}" for which in range(2 if kind == "calls" else 1)]
                self.add(AiMessage(f"{id} calls", [ToolExecutionRequest(each, "tool", "{}") for each in ids]))
                self.add(*(ToolExecutionResultMessage(each, "tool", f"{each} is" + " word" * more) for each in ids))
            case "system":
                self.add(SystemMessage(f"rules of {id}"))

    @rule(rounds=rounds)
    def go_on(self, rounds: list[int]) -> None:
        """The turn under way calls more tools."""
        for words in rounds:
            id = self.name()
            self.add(AiMessage(f"{id} calls", [ToolExecutionRequest(id, "tool", "{}")]))
            self.add(ToolExecutionResultMessage(id, "tool", f"{id} is" + " word" * words))

    def add(self, *messages: ChatMessage) -> None:
        self.same(self.memory.add(*messages), self.model.add(*messages))

    @rule(rewound=st.integers(1, 4), new=st.booleans())
    def rewind(self, rewound: int, new: bool) -> None:
        """The last messages are taken back, perhaps for another question."""
        given = [item.message for item in self.model.items][:-rewound]
        given += [UserMessage(f"{self.name()} asks anew")] if new else []
        self.rewrite(given)

    @rule(left_out=st.sets(st.integers(0, 8), min_size=1, max_size=3))
    def leave_out(self, left_out: set[int]) -> None:
        given = [item.message for index, item in enumerate(self.model.items) if index not in left_out]
        self.rewrite(given)

    def rewrite(self, given: list[ChatMessage]) -> None:
        self.same(self.memory.set(given), self.model.set(given), is_rewrite=True)

    @rule(keep=st.integers(0, 3))
    def clear_tool_results(self, keep: int) -> None:
        self.same(self.memory.clear_tool_results(keep), self.model.clear_tool_results(keep))

    @rule()
    def clear(self) -> None:
        self.same(self.memory.clear(), self.model.clear())

    @rule(index=st.integers(0, 20), pinned=st.booleans())
    def pin(self, index: int, pinned: bool) -> None:
        if not self.model.items:
            return
        index %= len(self.model.items)
        row = list(self.conversation.messages.retained())[index]
        assert row.message == self.model.items[index].message
        if self.model.is_summary(self.model.items[index]):
            return
        if not pinned:
            self.same(self.memory.unpin(row.position), self.model.unpin(index))
            return
        try:
            expected = self.model.pin(index)
        except ValueError:
            with pytest.raises(ValueError, match="more than half"):
                self.memory.pin(row.position)
        else:
            self.same(self.memory.pin(row.position), expected)

    @rule(changed=changes)
    def change_window(self, changed: dict[str, Any]) -> None:
        try:
            expected = self.model.set_window(**changed)
        except ValueError:
            with pytest.raises(ValueError, match="more than half"):
                self.memory.set_window(**changed)
        else:
            self.same(self.memory.set_window(**changed), expected)

    @rule(keep=st.integers(0, 100), tokens=st.none() | st.integers(0, 10))
    def plan(self, keep: int, tokens: int | None) -> None:
        expected = self.model.plan(keep, tokens)
        plan = plan_compaction(self.conversation, keep=keep, summary_tokens=tokens)
        assert (plan is None) == (expected is None), (plan, expected)
        if plan is None or expected is None:
            return
        told = [item.message for item in expected.covered]
        assert sorted(map(repr, plan.messages)) == sorted(map(repr, told))
        assert plan.previous == (summary_text(expected.previous.message) if expected.previous else None)
        assert not any(isinstance(message, SystemMessage) for message in plan.messages)
        self.check_not_twice(expected)
        self.plans.append((plan, expected))

    @rule(words=st.integers(0, 30), which=st.integers(0, 5), late=st.booleans())
    @precondition(lambda self: self.plans)
    def apply(self, words: int, which: int, late: bool) -> None:
        """The text of a plan comes, perhaps for an older one, and that one may come again."""
        plan, expected = self.plans[which % len(self.plans)] if late else self.plans[-1]
        text = f"summary {self.name()}" + " word" * words if words else " \n"
        try:
            step = self.model.apply(expected, text)
        except RefusedError:
            with pytest.raises(UnusableSummaryError):
                self.memory.apply_compaction(plan, text)
            return
        change = self.memory.apply_compaction(plan, text)
        assert (change is None) == (step is None), (plan, step)
        if step is not None:
            self.same(change, step)

    @rule(keep=st.sampled_from([0, 0, 30, 60]), words=st.integers(1, 10), meanwhile=st.lists(meanwhile(), max_size=4))
    def apply_late(self, keep: int, words: int, meanwhile: list[tuple[str, Any]]) -> None:
        """Something is said and done between a plan and its text."""
        before = len(self.plans)
        self.plan(keep, 0)
        for name, argument in meanwhile:
            getattr(self, name)(**argument)
        if len(self.plans) > before:
            self.apply(words, 0, late=False)

    @rule(ago=st.integers(0, 6))
    def purge(self, ago: int) -> None:
        """What left some versions ago is erased."""
        version = self.model.version - ago
        self.conversation.messages.filter(evicted_in__lte=version).update(evicted_at=LONG_AGO)
        list(purge_evicted(LONG_AGO + timedelta(days=1), Conversation.objects.filter(pk=self.conversation.pk)))
        self.model.purge(version)
        self.conversation.refresh_from_db()
        self.past[self.model.version] = list(self.model.items)

    def same(self, change: Any, step: Step, *, is_rewrite: bool = False) -> None:
        assert change.memory.version == step.version
        assert [row.message for row in self.conversation.messages.retained()] == step.stored
        left = [(repr(row.message), row.eviction_reason) for row in change.evicted]
        assert sorted(left) == sorted((repr(message), reason) for message, reason in step.left)
        self.past[step.version] = list(self.model.items)
        assert is_rewrite or not left_behind(self.conversation, self.calls)
        self.calls = calls_of(self.conversation)

    def check_not_twice(self, plan: NaivePlan) -> None:
        """What is in the summary that the new one takes in is not told again."""
        if plan.previous is not None:
            assert not {*map(id, plan.covered)} & {*map(id, self.model.sources(plan.previous))}

    @invariant()
    def the_model_agrees(self) -> None:
        if not hasattr(self, "conversation"):
            return
        assert self.memory.messages() == self.model.messages()
        assert self.memory.messages() == self.memory.at(self.conversation.version), "what is stored is what is read"
        fits = not self.model.over_the_limit()
        assert fits or not self.model._oldest_unit(), "the limit holds unless all that is left must stay"

    @invariant()
    def every_message_is_somewhere(self) -> None:
        """It is in the memory, in a summary that is there or can be taken up again, in the next plan, or taken out."""
        if not hasattr(self, "conversation"):
            return
        missing = {repr(item.message) for item in self.model.log if item and self.is_missing(item)}
        assert {repr(row.message) for row in uncovered(self.conversation)} <= missing

    def is_missing(self, item: Item) -> bool:
        return item not in self.model.items and not is_system(item) and self.model._is_missing(item)

    def teardown(self) -> None:
        if not hasattr(self, "conversation"):
            return
        try:
            for version, items in self.past.items():
                expected = [item.message for item in items if item in self.model.log]
                assert self.memory.at(version) == expected, version
            if not self.conversation.purged_count:
                check_invariants(self.conversation)
            assert list(verify()) == []
        finally:
            transaction.set_rollback(True)
            self.transaction.__exit__(None, None, None)


@pytest.mark.slow
def test_any_order() -> None:
    run_state_machine_as_test(
        Compactions,
        settings=settings(
            phases=[Phase.explicit, Phase.generate],  # to shrink a failure would take minutes
            report_multiple_bugs=False,
            max_examples=budget.examples(18),
            stateful_step_count=budget.steps(30),
            suppress_health_check=list(HealthCheck),
        ),
    )
