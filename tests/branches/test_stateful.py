"""Going back between everything else that happens to a memory, beside a model that keeps whole copies of itself."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from chatmemory import ChatMessage
from chatmemory.database.change import Change
from chatmemory.models import Origin
from chatmemory.verification import verify
from tests.database.test_compaction_stateful import Compactions
from tests.support import budget
from tests.support.naive_compaction import NaiveCompaction
from tests.support.naive_window import Step
from tests.support.window_cases import calls_of, windows

pytestmark = pytest.mark.django_db


SPEAKERS = ("USER", "AI", "SYSTEM")


@dataclass(frozen=True)
class Left:
    """A place that the conversation left."""

    head: int | None
    model: NaiveCompaction


class GoingBack(Compactions):
    """After a conversation went back, it goes on as if what was said since had never been said.

    The model of a place is a deep copy of the model that was there. Its messages know their names only, because a
    restored message has another position.
    """

    # A rewrite or a clear says which messages are not wanted. Where they are, later summaries may cover less.
    clear = purge = None  # type: ignore[assignment]

    def leave_out(self, left_out: set[int]) -> None:
        """Called by a rule of the base class."""

    def rewind(self, rewound: int, new: bool) -> None:
        """Called by a rule of the base class."""

    @initialize(window=windows(), wide=st.integers(1, 4))
    def begin(self, window: dict[str, Any], wide: int) -> None:
        super().begin(window, wide)
        self.before: dict[int, NaiveCompaction] = {}
        """The model right before each message was said, by position."""
        self.parents: dict[int, int | None] = {}
        self.said: dict[int, ChatMessage] = {}
        self.head: int | None = None
        self.left: list[Left] = []
        self.pinned: dict[str, bool] = {}
        self.memories: dict[int, list[ChatMessage]] = {0: []}

    def add(self, *messages: ChatMessage) -> None:
        before = deepcopy(self.model)
        change = self.memory.add(*messages)
        self.note(change, before)
        self.same(change, self.model.add(*messages))

    def note(self, change: Change, before: NaiveCompaction) -> None:
        for row in change.added:
            if row.origin == Origin.SAID:
                self.before.setdefault(row.position, before)
                self.parents[row.position] = self.head
                self.said[row.position] = row.message
                self.head = row.position
                before = None  # type: ignore[assignment]  # only the first message of a change has a place before it

    @rule(which=st.integers(0, 1000))
    @precondition(lambda self: self.parents)
    def go_back(self, which: int) -> None:
        places = [place for place in self.parents if self.before[place] and self.said[place].type in SPEAKERS]
        position = places[which % len(places)]
        change = self.conversation.rewind(before=position)
        self.left.append(Left(self.head, deepcopy(self.model)))
        self.return_to(change, self.before[position], self.parents[position])

    @rule(which=st.integers(0, 1000))
    @precondition(lambda self: self.left)
    def switch(self, which: int) -> None:
        self.switch_to([*self.parents][which % len(self.parents)])

    def switch_to(self, position: int) -> None:
        change = self.conversation.switch(position)
        if position in self.path(self.head):
            assert change.moment is None
            return
        there = next(left for left in reversed(self.left) if position in self.path(left.head))
        self.left.append(Left(self.head, deepcopy(self.model)))
        self.return_to(change, there.model, there.head)

    @rule(which=st.integers(0, 1000))
    @precondition(lambda self: self.left and self.head is not None)
    def switch_there_and_back(self, which: int) -> None:
        before, head = self.memory.messages(), self.head
        assert head is not None
        self.switch(which)
        self.switch_to(head)
        assert self.head != head or self.memory.messages() == before

    def path(self, head: int | None) -> list[int]:
        found = []
        while head is not None:
            found.append(head)
            head = self.parents[head]
        return found

    def return_to(self, change: Change, model: NaiveCompaction, head: int | None) -> None:
        self.head = head
        changed, self.model = self.model.settings, deepcopy(model)
        self.model.settings = changed
        for item in self.model.items:
            item.pinned = self.pinned.get(repr(item.message), item.pinned)
        self.model.version = change.memory.version - 1
        self.model._change(self.model._evict, even_so=True)
        assert [row.message for row in self.conversation.messages.retained()] == [
            item.message for item in self.model.items
        ]
        self.plans = []  # they are void now
        self.calls = calls_of(self.conversation)
        self.remember()

    def same(self, change: Change, step: Step, *, is_rewrite: bool = False) -> None:
        super().same(change, step, is_rewrite=is_rewrite)
        self.remember()

    def remember(self) -> None:
        for item in self.model.items:
            self.pinned[repr(item.message)] = item.pinned
        self.memories[self.model.version] = [item.message for item in self.model.items]

    @rule(words=st.integers(0, 5), which=st.integers(0, 1000), keep=st.sampled_from([0, 50]))
    def summary_of_another_branch(self, words: int, which: int, keep: int) -> None:
        """A summary that was planned before the conversation went back is not applied."""
        plan = self.memory.plan_compaction(keep=keep)
        if plan is None or not self.parents:
            return
        self.go_back(which)
        assert self.memory.apply_compaction(plan, "summary") is None

    @invariant()
    def the_tree_agrees(self) -> None:
        if not hasattr(self, "conversation"):
            return
        tree = self.conversation.tree()
        spoken = {position for position, message in self.said.items() if message.type != "SYSTEM"}

        def nearest(position: int | None) -> int | None:
            while position is not None and position not in spoken:
                position = self.parents[position]
            return position

        assert tree.parents == {position: nearest(self.parents[position]) for position in spoken}
        assert tree.head == nearest(self.head)

    def teardown(self) -> None:
        if not hasattr(self, "conversation"):
            return
        try:
            for version, messages in self.memories.items():
                assert self.memory.at(version) == messages, version
            assert [row.message for row in self.conversation.messages.history()] == list(self.said.values())
            assert list(verify()) == []
        finally:
            transaction.set_rollback(True)
            self.transaction.__exit__(None, None, None)


@pytest.mark.slow
def test_any_order() -> None:
    run_state_machine_as_test(
        GoingBack,
        settings=settings(
            phases=[Phase.explicit, Phase.generate],  # to shrink a failure would take minutes
            report_multiple_bugs=False,
            max_examples=budget.examples(18),
            stateful_step_count=budget.steps(30),
            suppress_health_check=list(HealthCheck),
        ),
    )
