"""A second model of compaction, from its rules alone, on top of the second model of the windows.

It keeps every message that ever came, in order, and for each what became of it. It imports nothing of what it judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from chatmemory import ChatMessage, UserMessage
from tests.support.naive_window import Item, NaiveWindow, Step, is_call, is_pinned, is_system, turns_of, units_of

__all__ = ["NaiveCompaction", "NaivePlan", "RefusedError", "framed"]

NO_ROOM = {"window", "orphan", "tool_cleared"}
"""The reasons of messages that left for want of room, which a summary covers as well."""


class RefusedError(Exception):
    """The text cannot be a summary."""


def framed(text: str) -> ChatMessage:
    """The message of a summary, for texts in which no closing tag has to be escaped."""
    return UserMessage(f"<summary>\n{text}\n</summary>")


@dataclass(frozen=True, eq=False)
class NaivePlan:
    """What a summary would stand for."""

    covered: list[Item]
    """The messages, in order, that no summary covers; not placeholders."""

    leaving: list[Item]
    """What is in the memory now and would leave."""

    previous: Item | None
    """The summary that it takes in."""

    begins_at: int
    """The position up to which everything was in summaries."""

    ends_at: int
    """The position up to which everything will be."""

    made_at: int
    """The number of messages that had come until then."""


@dataclass
class NaiveCompaction(NaiveWindow):
    """A memory, its window, and its summaries."""

    log: list[Item | None] = field(default_factory=list)
    """Every message that ever came, by its position; None if it was erased."""

    left: dict[Item, tuple[str, int]] = field(default_factory=dict)
    """Why a message left, and in which version."""

    plans: dict[Item, NaivePlan] = field(default_factory=dict)
    """What each summary was made from."""

    came: dict[Item, int] = field(default_factory=dict)
    """The version in which each summary came."""

    covered_to: int = 0
    """The position up to which everything is in a summary, or was cleared."""

    # The verbs.

    def plan(self, keep: int, expected_tokens: int | None) -> NaivePlan | None:
        """Plan a summary of the turns before those that stay; None if they are too little for one."""
        kept = self._kept(keep)
        goes_into_turn = kept == self._kept(0) and self._goes_into(kept, keep)
        if goes_into_turn:
            kept = self._latest_calls()
        leaving = self._replaceable(self.items[: len(self.items) - len(kept)])
        end = self._end(kept, goes_into_turn)
        evicted = [item for item in self.log[:end] if item and item not in self.items and self._is_missing(item)]
        covered = evicted + [item for item in leaving if item.original not in evicted]
        if not covered:
            return None
        previous = self.latest_summary()
        tokens = sum(self.settings.tokens(item.message) for item in covered)
        expected = self.settings.tokens(previous.message) if previous else 200
        if self.settings.window == "tokens":
            expected = min(expected, self.settings.room // 10)
        expected = expected if expected_tokens is None else expected_tokens
        plan = NaivePlan(covered, leaving, previous, self.covered_to, end, len(self.log))
        return plan if tokens >= 2 * expected and self._has_room(plan, expected) else None

    def apply(self, plan: NaivePlan, text: str) -> Step | None:
        """Put a summary in the place of what a plan covers.

        Returns:
            None if any of it was erased, taken out, is in another summary, or belongs to the last turn now.

        Raises:
            RefusedError: it is not smaller than what it covers, or too large for the window.
        """
        if not text.strip():
            raise RefusedError
        if self.covered_to != plan.begins_at or self.latest_summary() is not plan.previous:
            return None
        sources = [*plan.covered, *plan.leaving]
        sources += [item for item in self.log[plan.made_at :] if item and item.original in sources]
        if any(item not in self.log or self._was_taken_out(item) for item in sources):
            return None
        leaving = [
            item
            for unit in units_of(self.items)
            if all(item in sources and not self._is_kept_by_a_pin(item) for item in unit)
            for item in unit
        ]
        stays = self._kept(0)
        if self.settings.compact_keep_calls is not None:
            stays = [item for item in stays if item in self._latest_calls() or item is self._last_question()]
        if any(item in stays for item in leaving):
            return None
        message = framed(text)
        stood_for = [item.message for item in plan.covered] + ([plan.previous.message] if plan.previous else [])
        if self.settings.tokens(message) >= sum(map(self.settings.tokens, stood_for)):
            raise RefusedError
        summary = Item(message)

        def act() -> None:
            for item in [*leaving, *(item for item in self.items if self.is_summary(item))]:
                self._leave(item, "summarized")
            self.items.insert(self._place(plan), summary)
            self._came.append(summary)
            self.plans[summary] = plan
            if 2 * (self.settings.cost(message) + self.pinned_cost()) > self.settings.room:
                raise RefusedError
            self._evict()

        before, left = list(self.items), dict(self.left)
        try:
            step = self._change(act)
        except RefusedError:
            self.items, self.left = before, left
            self.plans.pop(summary)
            raise
        self.covered_to = max(self.covered_to, plan.ends_at)
        self.came[summary] = self.version
        return step

    def set(self, messages: Iterable[ChatMessage]) -> Step:
        before, length = list(self.items), len(self.log)
        step = super().set(messages)
        if before and not any(item in self.items or self.left[item][0] != "rewritten" for item in before):
            self.covered_to = length
        return step

    def clear(self) -> Step:
        step = super().clear()
        self.covered_to = len(self.log)
        return step

    def purge(self, version: int) -> Step:
        """Erase what has left up to a version, and the summaries made from it."""
        gone = [item for item in self.log if item and item in self.left and self.left[item][1] <= version]
        while more := [
            item for item in self.plans if item in self.log and item not in gone and self._needs(item, gone)
        ]:
            gone += more
        latest = self.latest_summary()
        erased = [item for item in self.items if item in gone]

        def act() -> None:
            self.items = [item for item in self.items if item not in gone]

        step = self._change(act, even_so=bool(erased))
        self.log = [None if item in gone else item for item in self.log]
        while latest is not None and latest in gone:
            self.covered_to = self.plans[latest].begins_at
            latest = self.plans[latest].previous
        return step

    # What holds at a moment.

    def _has_room(self, plan: NaivePlan, tokens: int) -> bool:
        """Whether a summary of so many tokens would stay in the memory."""
        summary = Item(framed("?"))

        def count(message: ChatMessage) -> int:
            return tokens if message is summary.message else self.settings.tokens(message)

        stay = [item for item in self.items if item not in plan.leaving and not self.is_summary(item)]
        tried = NaiveCompaction(replace(self.settings, tokens=count), stay, log=self.log, plans={summary: plan})
        tried.items.insert(tried._place(plan), summary)
        tried._evict()
        return summary in tried.items and 2 * (self.pinned_cost() + 1) <= self.settings.room

    def is_summary(self, item: Item) -> bool:
        return item in self.plans

    def turns(self) -> list[list[Item]]:
        """The turns of the memory: a summary begins none and belongs to none."""
        return turns_of(item for item in self.items if not self.is_summary(item))

    def latest_summary(self) -> Item | None:
        """The summary that holds all before what is not covered yet, even if the window has evicted it."""
        latest = self._last_that_came()
        goes_on = latest in self.items or (latest is not None and self.left[latest][0] in ("window", "summarized"))
        return latest if goes_on else None

    def _last_that_came(self) -> Item | None:
        found = [item for item in self.plans if item in self.log and self.log.index(item) >= self.covered_to]
        return found[-1] if found else None

    def sources(self, summary: Item) -> list[Item]:
        """Everything that a summary was made from."""
        plan = self.plans[summary]
        before = [] if plan.previous is None else [plan.previous, *self.sources(plan.previous)]
        return [*plan.covered, *plan.leaving, *before]

    def _needs(self, summary: Item, gone: list[Item]) -> bool:
        return any(item in gone and not self.is_summary(item) for item in self.sources(summary))

    def _is_missing(self, item: Item) -> bool:
        """Whether a message left, so that a summary has to tell it."""
        if is_system(item) or self.is_summary(item) or item.original is not None:
            return False
        reason, version = self.left[item]
        if reason not in (*NO_ROOM, "summarized"):
            return False
        placeholders = [placeholder for placeholder in self.log if placeholder and placeholder.original is item]
        if any(self._was_taken_out(placeholder) for placeholder in placeholders):
            return False
        latest = self._last_that_came()
        if latest is not None and version > self.came[latest]:
            return True  # it was pinned when the summary came, or its own summary was erased
        is_told = latest is not None and item in self.sources(latest)
        return not is_told and self.log.index(item) >= self.covered_to

    def _was_taken_out(self, item: Item) -> bool:
        return item not in self.items and self.left[item][0] not in (*NO_ROOM, "summarized")

    def _is_kept_by_a_pin(self, item: Item) -> bool:
        unit = next(unit for unit in units_of(self.items) if item in unit)
        if is_pinned(unit):
            return True
        turn = next((turn for turn in self.turns() if item in turn), [])
        is_question = bool(turn) and turn[0] is item and isinstance(item.message, UserMessage)
        return self.settings.whole_turns and is_question and any(is_pinned(unit) for unit in units_of(turn))

    def _kept(self, keep: int) -> list[Item]:
        """The end of the memory that stays: the last turn, and whole turns before it as far as they fit."""
        begins = [place for place, item in enumerate(self.items) if self._begins_turn(item)]
        kept = list(self.items)
        for number, begin in enumerate(reversed(begins)):
            cost = sum(self.settings.cost(item.message) for item in self.items[begin:])
            if number and cost * 100 > self.settings.room * keep:
                break
            kept = self.items[begin:]
        return kept

    def _replaceable(self, items: list[Item]) -> list[Item]:
        """What a summary may take the place of: no pins, nor the last question if its turn need not stay whole."""
        open_question = None if self.settings.compact_keep_calls is None else self._last_question()
        return [
            item
            for unit in units_of(items)
            for item in unit
            if not (is_system(item) or self.is_summary(item) or self._is_kept_by_a_pin(item) or item is open_question)
        ]

    def _latest_calls(self) -> list[Item]:
        """What stays of the last turn, beside its question: its latest calls, and what comes after them."""
        turn = self._kept(0)
        after = [item for item in turn if item is not self._last_question()]
        calls = [place for place, item in enumerate(after) if is_call(item)]
        most = self.settings.compact_keep_calls
        assert most is not None
        return after[calls[-most] :] if len(calls) > most else after

    def _goes_into(self, turn: list[Item], keep: int) -> bool:
        """Whether a summary takes in older calls of the last turn: it is too long, or the window has evicted some."""
        if self.settings.compact_keep_calls is None:
            return False
        latest = self._latest_calls()
        older = self._replaceable([item for item in turn if item not in latest])
        is_long = sum(self.settings.cost(item.message) for item in turn) * 100 > self.settings.room * keep
        asked = [place for place, item in enumerate(self.log) if item and self._begins_turn(item)]
        question = self._last_question()
        since = self.log.index(question) if question else asked[-1] if asked else -1
        lost = [item for item in self.log[since + 1 :] if item and item not in self.items and self._is_missing(item)]
        return bool((older and is_long) or lost)

    def _begins_turn(self, item: Item) -> bool:
        return isinstance(item.message, UserMessage) and not self.is_summary(item)

    def _end(self, kept: list[Item], goes_into_turn: bool) -> int:
        """The position where what stays begins, or the turn under way if its question was evicted."""
        stays = [
            item for item in kept if not (item.pinned or item.original or is_system(item) or self.is_summary(item))
        ]
        places = [self.log.index(item) for item in stays] or [len(self.log)]
        if goes_into_turn:
            return min(places)
        users = [place for place, item in enumerate(self.log) if item and self._begins_turn(item)]
        return min(places + [place for place in users[-1:] if place >= self.covered_to])

    def _place(self, plan: NaivePlan) -> int:
        """Right after the system message and the pinned messages before what stays, and never within a unit."""
        place = 0
        for unit in units_of(self.items):
            if not is_system(unit[0]) and self.log.index(unit[0]) >= plan.ends_at:
                return place
            place += len(unit)
        return place

    # Eviction, with summaries: they are no turns, and the last to leave but for the turn under way.

    @contextmanager
    def _without_summaries(self) -> Iterator[None]:
        summaries = [(index, item) for index, item in enumerate(self.items) if self.is_summary(item)]
        self.items = [item for item in self.items if not self.is_summary(item)]
        try:
            yield
        finally:
            for index, item in summaries:
                self.items.insert(index, item)

    def _clear_results(self, *args: Any) -> None:
        with self._without_summaries():
            super()._clear_results(*args)

    def _oldest_turn(self) -> list[Item]:
        with self._without_summaries():
            return super()._oldest_turn()

    def _oldest_exchange_under_way(self) -> list[Item]:
        with self._without_summaries():
            return super()._oldest_exchange_under_way()

    def _evictable(self) -> list[list[Item]]:
        with self._without_summaries():
            return super()._evictable()

    def _last_resort(self) -> list[list[Item]]:
        with self._without_summaries():
            question = super()._last_resort()
        summaries = [[item] for item in self.items if self.is_summary(item) and not item.pinned]
        return [] if self.settings.compact_keep_calls is None else summaries + question

    def _oldest_unit(self) -> list[Item]:
        if self.settings.compact_keep_calls is not None:
            return super()._oldest_unit()
        with self._without_summaries():
            unit = super()._oldest_unit()
        summaries = [item for item in self.items if self.is_summary(item) and not item.pinned]
        is_of_last_turn = not unit or unit[0] in self.turns()[-1]
        if not summaries or not is_of_last_turn:
            return unit
        return summaries[:1] if self.over_the_limit() else []

    def pinned_cost(self) -> int:
        with self._without_summaries():
            return super().pinned_cost()

    def _change(self, act: Callable[[], object], *, even_so: bool = False) -> Step:
        step = super()._change(act, even_so=even_so)
        short_lived = {item: reason for item, reason in self._left if item.original and item in self._came}
        instead = {item.original: reason for item, reason in short_lived.items()}
        came = [item for item in self._came if item not in short_lived]
        self.log += [item for item in came if not item.original] + [item for item in came if item.original]
        for item, reason in self._left:
            if item not in short_lived:
                self.left[item] = instead.get(item, reason), self.version
        return step
