"""Which messages leave, for any conversation and any window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.entries import Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.window import Window, WindowKind
from tests.support import budget
from tests.support.strategies import tool_groups

CALL = ToolExecutionRequest("1", "tool", "{}")
RESULT = ToolExecutionResultMessage("1", "tool", "result")

# Few and short, so that the window's rules and not the texts are what is tried.
MESSAGES = st.sampled_from(
    [
        SystemMessage("Be brief."),
        SystemMessage("Be kind."),
        UserMessage("Hi"),
        AiMessage("Hello"),
        AiMessage("Hello", [CALL]),
        AiMessage(None, [CALL, CALL]),
        RESULT,
        CustomMessage({}),
    ]
)
ENTRIES = st.lists(st.builds(Entry, MESSAGES, st.integers(0, 6)), max_size=14)


def window_of(limit: int, *, system_message_first: bool = False) -> Window:
    return Window(kind=WindowKind.MESSAGES, limit=limit, always_keep_system_message_first=system_message_first)


@dataclass
class Case:
    """What is in a memory, what is added to it, and its window."""

    stored: list[Entry]
    added: list[Entry]
    limit: int
    overhead: int
    system_message_first: bool

    def retained(self, *, lazily: bool = False) -> Retained:
        total = self.overhead + sum(entry.cost for entry in self.stored)
        window = window_of(self.limit, system_message_first=self.system_message_first)
        return Retained(iter(self.stored) if lazily else self.stored, total=total, window=window)

    def run(self, *, lazily: bool = False) -> Retained:
        retained = self.retained(lazily=lazily)
        if not self.added:
            retained.evict()
        for entry in self.added:
            retained.add(entry)
        return retained


CASES = st.builds(
    Case,
    stored=ENTRIES,
    added=ENTRIES,
    limit=st.integers(1, 25),
    overhead=st.sampled_from([0, 0, 2, 3, 30]),
    system_message_first=st.booleans(),
)
# A window of messages: everything costs 1, and a request nothing.
CASES_OF_MESSAGES = st.builds(
    Case,
    stored=st.lists(st.builds(Entry, MESSAGES, st.just(1)), max_size=14),
    added=st.lists(st.builds(Entry, MESSAGES, st.just(1)), max_size=14),
    limit=st.integers(1, 8),
    overhead=st.just(0),
    system_message_first=st.booleans(),
)
ANY_CASE = CASES | CASES_OF_MESSAGES


class Naive:
    """The algorithm as LangChain4j has it, on a plain list that it counts anew all the time."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.entries = list(case.stored)
        self.gone: list[tuple[Entry, EvictionReason]] = []

    def run(self) -> Naive:
        self.evict()
        for entry in self.case.added:
            self.add(entry)
        return self

    def evict(self) -> None:
        while self.case.overhead + sum(entry.cost for entry in self.entries) > self.case.limit:
            index = 1 if self.entries and isinstance(self.entries[0].message, SystemMessage) else 0
            if index >= len(self.entries):
                return
            message = self.entries[index].message
            self.gone.append((self.entries.pop(index), EvictionReason.WINDOW))
            if isinstance(message, AiMessage) and message.tool_execution_requests:
                while index < len(self.entries) and isinstance(self.entries[index].message, ToolExecutionResultMessage):
                    self.gone.append((self.entries.pop(index), EvictionReason.ORPHAN))

    def add(self, entry: Entry) -> None:
        self.evict()
        front = False
        if isinstance(entry.message, SystemMessage):
            for index, other in enumerate(self.entries):
                if isinstance(other.message, SystemMessage):
                    if other.message == entry.message:
                        return
                    self.gone.append((self.entries.pop(index), EvictionReason.REPLACED))
                    break
            front = self.case.system_message_first
        self.entries.insert(0 if front else len(self.entries), entry)
        self.evict()


class TestAnyConversation:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(300))
    @given(ANY_CASE)
    # A call leaves, and its result, the last thing said, with it.
    @example(Case([Entry(AiMessage(None, [CALL]), 1), Entry(RESULT, 1)], [Entry(UserMessage("Hi"), 1)], 2, 0, False))
    # A system message in the middle is not protected.
    @example(Case([Entry(UserMessage("Hi"), 1), Entry(SystemMessage("x"), 1)], [Entry(RESULT, 1)], 1, 0, False))
    def test_as_the_naive_algorithm(self, case: Case) -> None:
        expected, retained = Naive(case).run(), case.run()
        assert retained.entries() == expected.entries
        assert retained.evicted == expected.gone

    @given(ANY_CASE)
    def test_fits_or_nothing_may_leave(self, case: Case) -> None:
        retained = case.run()
        entries = retained.entries()
        cost = case.overhead + sum(entry.cost for entry in entries)
        lone_system_message = len(entries) == 1 and isinstance(entries[0].message, SystemMessage)
        assert retained.total == cost
        assert cost <= case.limit or lone_system_message or not entries

    @pytest.mark.slow
    @given(ANY_CASE)
    def test_nothing_is_lost_and_nothing_is_twice(self, case: Case) -> None:
        retained = case.run()
        kept_and_gone = [*retained.entries(), *(entry for entry, _ in retained.evicted)]
        # Entries are never equal, so this compares them by identity.
        assert sorted(map(id, kept_and_gone)) == sorted(map(id, [*case.stored, *retained.added]))
        refused = [entry for entry in case.added if entry not in retained.added]
        assert all(isinstance(entry.message, SystemMessage) for entry in refused)

    @pytest.mark.slow
    @given(ANY_CASE)
    def test_order_is_kept(self, case: Case) -> None:
        said = {id(entry): place for place, entry in enumerate([*case.stored, *case.added])}
        entries = case.run().entries()
        if case.system_message_first and entries and isinstance(entries[0].message, SystemMessage):
            entries = entries[1:]
        places = [said[id(entry)] for entry in entries]
        assert places == sorted(places)

    @pytest.mark.slow
    @given(ANY_CASE)
    def test_the_protected_system_message_stays(self, case: Case) -> None:
        case.added = [entry for entry in case.added if not isinstance(entry.message, SystemMessage)]
        system = Entry(SystemMessage("Protected."), 3)
        case.stored.insert(0, system)
        assert case.run().entries()[0] is system

    @pytest.mark.slow
    @given(ANY_CASE)
    def test_lazily_read_is_the_same(self, case: Case) -> None:
        lazily, at_once = case.run(lazily=True), case.run()
        assert lazily.evicted == at_once.evicted
        assert lazily.entries() == at_once.entries()
        assert lazily.total == at_once.total

    @pytest.mark.slow
    @given(ANY_CASE)
    def test_one_batch_is_as_one_by_one(self, case: Case) -> None:
        at_once = case.run()
        stored = case.stored
        gone = []
        for entry in case.added:
            step = Case(stored, [entry], case.limit, case.overhead, case.system_message_first).run()
            stored = step.entries()
            gone += step.evicted
        if case.added:
            assert (at_once.entries(), at_once.evicted) == (stored, gone)

    @pytest.mark.slow
    @given(
        st.lists(tool_groups() | st.sampled_from([[UserMessage("Hi")], [AiMessage("x")], [SystemMessage("s")]])),
        st.integers(5, 12),
        st.booleans(),
    )
    def test_a_result_never_comes_without_its_call(
        self, groups: list[list[ChatMessage]], limit: int, system_message_first: bool
    ) -> None:
        """If a call, its results and a system message fit; otherwise results can come after their call left."""
        window = window_of(limit, system_message_first=system_message_first)
        retained = Retained([], total=0, window=window)
        for message in (message for group in groups for message in group):
            retained.add(Entry(message, 1))
        called: set[Any] = set()
        for entry in retained.entries():
            if isinstance(entry.message, AiMessage):
                called = {request.id for request in entry.message.tool_execution_requests}
            if isinstance(entry.message, ToolExecutionResultMessage):
                assert entry.message.id in called

    @pytest.mark.slow
    @given(ANY_CASE)
    def test_looking_changes_nothing(self, case: Case) -> None:
        retained = case.run()
        entries, evicted = retained.entries(), list(retained.evicted)
        retained.evict()
        assert retained.entries() == entries
        assert retained.evicted == evicted


def retained_of(*messages: ChatMessage, limit: int, system_message_first: bool = False) -> Retained:
    window = window_of(limit, system_message_first=system_message_first)
    return Retained([Entry(message, 1) for message in messages], total=len(messages), window=window)


def kept(retained: Retained) -> list[ChatMessage]:
    return [entry.message for entry in retained.entries()]


def gone(retained: Retained) -> list[tuple[ChatMessage, EvictionReason]]:
    return [(entry.message, reason) for entry, reason in retained.evicted]


class TestRules:
    """One rule each, named."""

    def test_a_full_window_is_not_too_full(self) -> None:
        retained = retained_of(UserMessage("1"), UserMessage("2"), limit=2)
        retained.evict()
        assert retained.evicted == []

    def test_the_oldest_leaves(self) -> None:
        retained = retained_of(UserMessage("1"), UserMessage("2"), limit=2)
        retained.add(Entry(UserMessage("3"), 1))
        assert gone(retained) == [(UserMessage("1"), EvictionReason.WINDOW)]
        assert kept(retained) == [UserMessage("2"), UserMessage("3")]

    def test_results_leave_with_their_call(self) -> None:
        call = AiMessage(None, [CALL, CALL])
        retained = retained_of(call, RESULT, RESULT, UserMessage("2"), limit=4)
        retained.add(Entry(UserMessage("3"), 1))
        assert gone(retained) == [
            (call, EvictionReason.WINDOW),
            (RESULT, EvictionReason.ORPHAN),
            (RESULT, EvictionReason.ORPHAN),
        ]

    def test_only_results_that_follow_at_once_leave(self) -> None:
        retained = retained_of(AiMessage(None, [CALL]), UserMessage("x"), RESULT, limit=2)
        retained.evict()
        assert kept(retained) == [UserMessage("x"), RESULT]

    def test_an_answer_without_calls_leaves_alone(self) -> None:
        retained = retained_of(AiMessage("x"), RESULT, limit=1)
        retained.evict()
        assert gone(retained) == [(AiMessage("x"), EvictionReason.WINDOW)]
        assert kept(retained) == [RESULT]

    def test_a_result_may_leave_for_itself(self) -> None:
        retained = retained_of(RESULT, UserMessage("x"), limit=1)
        retained.evict()
        assert gone(retained) == [(RESULT, EvictionReason.WINDOW)]

    def test_results_leave_at_once_when_they_are_added_after_their_call_left(self) -> None:
        retained = retained_of(SystemMessage("s"), limit=1)
        retained.add(Entry(AiMessage(None, [CALL]), 1))
        retained.add(Entry(RESULT, 1))
        assert kept(retained) == [SystemMessage("s")]

    def test_a_system_message_is_protected_at_the_front_only(self) -> None:
        retained = retained_of(UserMessage("1"), SystemMessage("s"), UserMessage("2"), limit=1)
        retained.evict()
        assert kept(retained) == [SystemMessage("s")]
        behind = retained_of(UserMessage("1"), SystemMessage("s"), limit=1)
        behind.evict()
        assert kept(behind) == [SystemMessage("s")]
        assert gone(behind) == [(UserMessage("1"), EvictionReason.WINDOW)]

    def test_the_same_system_message_changes_nothing(self) -> None:
        retained = retained_of(UserMessage("1"), SystemMessage("s"), limit=3)
        assert retained.add(Entry(SystemMessage("s"), 1)) is False
        assert retained.added == []
        assert kept(retained) == [UserMessage("1"), SystemMessage("s")]

    def test_a_new_system_message_takes_the_place_at_the_end(self) -> None:
        retained = retained_of(SystemMessage("old"), UserMessage("1"), limit=3)
        assert retained.add(Entry(SystemMessage("new"), 1)) is True
        assert gone(retained) == [(SystemMessage("old"), EvictionReason.REPLACED)]
        assert kept(retained) == [UserMessage("1"), SystemMessage("new")]

    def test_a_new_system_message_goes_to_the_front_when_told_so(self) -> None:
        messages = UserMessage("1"), SystemMessage("old"), UserMessage("2")
        retained = retained_of(*messages, limit=3, system_message_first=True)
        retained.add(Entry(SystemMessage("new"), 1))
        assert kept(retained) == [SystemMessage("new"), UserMessage("1"), UserMessage("2")]

    def test_the_new_message_may_be_the_one_that_leaves(self) -> None:
        retained = Retained([], total=0, window=window_of(5))
        assert retained.add(Entry(UserMessage("long"), 6)) is True
        assert gone(retained) == [(UserMessage("long"), EvictionReason.WINDOW)]
        assert retained.total == 0

    def test_room_of_a_replaced_message_is_free_again(self) -> None:
        entries = [Entry(SystemMessage("old"), 5), Entry(UserMessage("1"), 5)]
        retained = Retained(entries, total=10, window=window_of(10))
        retained.add(Entry(SystemMessage("new"), 5))
        assert kept(retained) == [UserMessage("1"), SystemMessage("new")]


class TestReadsLazily:
    @staticmethod
    def stored(count: int, read: list[int], first: ChatMessage | None = None) -> Iterator[Entry]:
        for number in range(count):
            read.append(number)
            yield Entry(first if first and not number else UserMessage(str(number)), 1)

    @pytest.mark.parametrize(
        "first", [None, SystemMessage("s"), AiMessage(None, [CALL])], ids=["user", "system", "call"]
    )
    def test_one_leaves_ten_thousand(self, first: ChatMessage | None) -> None:
        read: list[int] = []
        retained = Retained(self.stored(10_000, read, first), total=10_000, window=window_of(10_000))
        retained.add(Entry(UserMessage("new"), 1))
        assert len(retained.evicted) == 1
        assert len(read) < 10

    def test_nothing_leaves(self) -> None:
        read: list[int] = []
        retained = Retained(self.stored(10_000, read), total=10_000, window=window_of(20_000))
        retained.add(Entry(UserMessage("new"), 1))
        assert read == []

    def test_a_batch_reads_as_far_as_it_evicts(self) -> None:
        read: list[int] = []
        retained = Retained(self.stored(10_000, read), total=10_000, window=window_of(10_000))
        for number in range(50):
            retained.add(Entry(UserMessage(str(number)), 1))
        assert len(retained.evicted) == 50
        assert len(read) < 60
