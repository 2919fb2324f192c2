"""Walks through the versions of a memory: as they were, and under another window, where past messages are its entries.

A walk looks only at what a version changes, so that a large memory takes hardly longer than a small one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Self

from chatmemory.core.entries import Cause, Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessageType, CustomMessage, ToolExecutionResultMessage
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.operations.replay.figures import Meter
from chatmemory.database.operations.replay.past import PastMessage, Version
from chatmemory.database.reading import requests_among
from chatmemory.models import Origin

__all__ = ["RecordedWalk", "SimulatedWalk", "Walk"]

_UNREAD = CustomMessage({})


@dataclass(eq=False)
class PastEntry(Entry):
    """A past message in a memory. Its ``message`` was not read, and stands for any."""

    position: int = field(kw_only=True)

    kind: ChatMessageType = field(kw_only=True)

    tokens: int = field(kw_only=True)

    memory_order: int = field(kw_only=True)

    evicted_in: int | None = field(kw_only=True)
    """The version in which the record evicted it; None if it never did."""

    calls: bool = field(kw_only=True)

    summarises: bool = field(default=False, kw_only=True)
    """Whether a model's API put a summary into it."""

    is_stray: bool = field(default=False, kw_only=True)
    """Whether it is a tool result that did not follow its call."""

    @property
    def type(self) -> ChatMessageType:
        return self.kind

    @property
    def has_calls(self) -> bool:
        return self.calls

    @property
    def holds_summary(self) -> bool:
        return self.summarises

    def says_the_same(self, other: Entry) -> bool:
        return False  # a system message that was there already got no row

    def placeholder(self, text: str, window: Window) -> Self:
        tokens = window.cost(ToolExecutionResultMessage(None, None, text))
        return type(self)(
            _UNREAD,
            tokens,
            is_placeholder=True,
            replaces=self,
            position=self.position,
            kind=self.kind,
            tokens=tokens,
            memory_order=self.memory_order,
            evicted_in=self.evicted_in,
            calls=False,
            is_stray=self.is_stray,
        )


def entry_of(past: PastMessage, window: Window) -> PastEntry:
    """Return a past message as an entry of a memory that ``window`` bounds."""
    return PastEntry(
        _UNREAD,
        past.token_count if window.kind is WindowKind.TOKENS else 1,
        is_placeholder=past.origin == Origin.CLEARED,
        is_summary=past.origin == Origin.SUMMARY,
        position=past.position,
        kind=ChatMessageType(past.type),
        tokens=past.token_count,
        memory_order=past.memory_order,
        evicted_in=past.evicted_in,
        calls=past.has_calls,
        summarises=past.holds_summary,
    )


_EVICTED = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER)
_ANOTHER_SYSTEM_MESSAGE = -1
_memory_order = attrgetter("memory_order")


class Walk(ABC):
    """A memory that goes from version to version, and the meter of its requests."""

    def __init__(self, window: Window) -> None:
        self.meter = Meter(window)
        self._window = window
        self._by_position: dict[int, PastEntry] = {}
        self._tokens = self._strays = 0
        # APIs take the system message apart, before all others, wherever it stands.
        self._system_messages: list[PastEntry] = []
        # The number of entries at the front that have not changed since the request before; infinite if none has.
        self._intact: float = inf
        self._size_before = self._tokens_before = 0

    def go_to(self, version: Version) -> None:
        """Change the memory as ``version`` does, and count the requests before the answers that came in it."""
        if not version.has_answers:
            self._change(version)
            return
        size, tokens, strays = self._size(), self._tokens, self._strays
        is_prefix = not self._size_before or self._intact >= self._size_before
        cacheable = self._tokens_before if is_prefix else self._intact_tokens()
        begins = next((entry for entry in self._entries() if entry.type is not ChatMessageType.SYSTEM), None)
        self._intact = inf
        self._change(version)
        for joined in requests_among(version.added, self._kept):
            for entry in joined:
                size, tokens, strays = size + 1, tokens + entry.tokens, strays + entry.is_stray
                begins = entry if begins is None and entry.type is not ChatMessageType.SYSTEM else begins
            self.meter.count_request(
                size=size,
                tokens=tokens,
                cacheable=cacheable,
                is_prefix=is_prefix,
                needs_repair=bool(strays) or (begins is not None and begins.type is not ChatMessageType.USER),
            )
            self._size_before, self._tokens_before = size, tokens
            cacheable, is_prefix = tokens, True  # for another answer of the same version

    def _kept(self, past: PastMessage) -> PastEntry | None:
        """Return the entry of a message that just came; None if it is not here, or a placeholder is."""
        entry = self._by_position.get(past.position)
        return None if entry is None or entry.is_placeholder else entry

    @abstractmethod
    def _size(self) -> int:
        """Return the number of entries."""

    @abstractmethod
    def _at(self, index: int) -> PastEntry | None:
        """Return the entry at ``index``; None if there are fewer."""

    @abstractmethod
    def _apply(self, version: Version) -> None:
        """Change the memory as ``version`` does, and tell of each entry that came or left."""

    def _change(self, version: Version) -> None:
        self._apply(version)
        if version.is_rewrite:
            self._mark_strays(0)
        elif version.has_results:
            self._mark_strays(max(0, self._size() - len(version.added)))

    def _entries(self) -> Iterator[PastEntry]:
        index = 0
        while (entry := self._at(index)) is not None:
            yield entry
            index += 1

    def _touch(self, index: float) -> None:
        """Note that something happened to the entry at ``index``, or to none if it is infinite."""
        self._intact = min(self._intact, index)

    def _came(self, entry: PastEntry) -> None:
        self._tokens += entry.tokens
        self._strays += entry.is_stray
        if entry.type is ChatMessageType.SYSTEM:
            self._touch(_ANOTHER_SYSTEM_MESSAGE)
            self._system_messages.append(entry)

    def _left(self, entry: PastEntry) -> None:
        self._tokens -= entry.tokens
        self._strays -= entry.is_stray
        if entry.type is ChatMessageType.SYSTEM:
            self._touch(_ANOTHER_SYSTEM_MESSAGE)
            self._system_messages.remove(entry)

    def _intact_tokens(self) -> int:
        """Return the tokens with which both the request before and the memory of now begin."""
        if self._intact == _ANOTHER_SYSTEM_MESSAGE:
            return 0
        entries = list(islice(self._entries(), int(self._intact)))
        apart = [entry for entry in self._system_messages if entry not in entries]
        return sum(entry.tokens for entry in entries + apart)

    def _mark_strays(self, start: int) -> None:
        """Mark the tool results from the index ``start`` on that do not follow their calls."""
        before = self._at(start - 1) if start else None
        for index in range(start, self._size()):
            entry = self._at(index)
            assert entry is not None
            if entry.is_result:
                follows = before is not None and (before.has_calls or (before.is_result and not before.is_stray))
                self._strays += (not follows) - entry.is_stray
                entry.is_stray = not follows
            before = entry


class RecordedWalk(Walk):
    """The memory as it was."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._memory: list[PastEntry] = []

    def _size(self) -> int:
        return len(self._memory)

    def _at(self, index: int) -> PastEntry | None:
        return self._memory[index] if index < len(self._memory) else None

    def _apply(self, version: Version) -> None:
        for past in version.added:
            entry = self._by_position[past.position] = entry_of(past, self._window)
            if past.covers_from in self._by_position and entry.is_placeholder:
                entry.is_stray = self._by_position[past.covers_from].is_stray
            index = bisect(self._memory, entry.memory_order, key=_memory_order)
            if index < len(self._memory):
                self._touch(index)
            self._memory.insert(index, entry)
            self._came(entry)
        for past, reason in version.gone:
            entry = self._by_position.pop(past.position)
            index = self._memory.index(entry)
            del self._memory[index]
            self._touch(index)
            self._left(entry)
            self.meter.evictions += reason in _EVICTED


class SimulatedWalk(Walk):
    """The memory as another window would have had it.

    What people and programs did to the memory happens here too: additions, rewrites, summaries, pins, and what was
    cleared. What the window of then did does not.
    """

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._retained = self._new([])
        # The position of the tool result that each placeholder of the record stands for.
        self._originals: dict[int, int] = {}

    def _size(self) -> int:
        return len(self._retained)

    def _at(self, index: int) -> PastEntry | None:
        return self._retained.at(index)

    def _apply(self, version: Version) -> None:
        given = [past for past in version.added if past.origin != Origin.CLEARED]
        placeholders = [past for past in version.added if past.origin == Origin.CLEARED]
        for past in placeholders:
            assert past.covers_from is not None
            self._originals[past.position] = past.covers_from
        for past, holds in version.pinned:
            if entry := self._entry_at(past.position):
                entry.pinned = holds
        if any(not holds for _, holds in version.pinned):
            self._retained.evict()
        summary = next((past for past in given if past.origin == Origin.SUMMARY), None)
        if summary is not None and not version.is_rewrite:
            gone = {past.position for past, reason in version.gone if reason == EvictionReason.SUMMARIZED}
            self._summarise(summary, gone)
        elif version.is_rewrite:
            left_out = {past.position for past, reason in version.gone if reason == EvictionReason.REWRITTEN}
            self._rewrite(given, left_out, {past.position for past, holds in version.pinned if holds})
        elif given:
            for past in given:
                entry = self._by_position[past.position] = entry_of(past, self._window)
                self._retained.add(entry)
        elif any(reason == EvictionReason.CLEARED for _, reason in version.gone):
            self._replace([])
        elif placeholders:
            self._clear_tool_results(placeholders)
        self._settle()

    def _rewrite(self, given: list[PastMessage], left_out: set[int], pinned: set[int]) -> None:
        gone = {self._original(position) for position in left_out}
        entries = [entry for entry in self._retained.entries() if entry.position not in gone]
        new = [entry_of(past, self._window) for past in given]
        for entry in new:
            entry.pinned = entry.position in pinned  # it takes the place of a pinned message
        self._replace(sorted(entries + new, key=_memory_order))
        self._retained.evict()

    def _summarise(self, summary: PastMessage, gone: set[int]) -> None:
        """Put a summary in the place of what it stands for, as far as that is still here.

        Args:
            summary: the summary.
            gone: the positions of the messages whose place it took in the record.
        """
        leaves = {self._original(position) for position in gone}
        rest = [
            entry
            for entry in self._retained.entries()
            if not (entry.position in leaves or _stood_for(entry, summary) or entry.is_summary)
        ]
        insort(rest, entry_of(summary, self._window), key=_memory_order)
        self._replace(rest)
        self._retained.evict()

    def _clear_tool_results(self, placeholders: list[PastMessage]) -> None:
        entries = self._retained.entries()
        for past in placeholders:
            entry = self._entry_at(past.position)
            if entry is not None and not entry.is_placeholder:
                new = entry_of(past, self._window)
                new.position, new.is_stray = entry.position, entry.is_stray
                entries[entries.index(entry)] = new
                self.meter.evictions += 1
        self._replace(entries)

    def _replace(self, entries: list[PastEntry]) -> None:
        """Make ``entries`` the memory."""
        before = self._retained.entries()
        pairs = enumerate(zip(before, entries, strict=False))
        differs = next((index for index, (one, other) in pairs if one is not other), min(len(before), len(entries)))
        if differs < len(before):
            self._touch(differs)
        here, there = set(before[differs:]), set(entries[differs:])
        for entry in here - there:
            del self._by_position[entry.position]
            self._left(entry)
        for entry in there - here:
            self._by_position[entry.position] = entry
            self._came(entry)
        self._retained = self._new(entries)

    def _settle(self) -> None:
        """Note what came and left, so that the next version begins with what is there."""
        retained = self._retained
        for entry in retained.added:
            self._came(entry)
        for entry in retained.placeholders:
            self._came(entry)
        for entry, reason in retained.evicted:
            self._by_position.pop(entry.position)
            self._left(entry)
            self.meter.evictions += reason in _EVICTED
        for entry in retained.placeholders:
            self._by_position[entry.position] = entry
            entry.replaces = None
        self._touch(retained.intact)
        retained.intact = inf
        retained.added.clear()
        retained.placeholders.clear()
        retained.evicted.clear()

    def _new(self, entries: list[PastEntry]) -> Retained[PastEntry]:
        total = self._window.overhead + sum(entry.cost for entry in entries)
        return Retained(entries, total=total, window=self._window)

    def _entry_at(self, position: int) -> PastEntry | None:
        return self._by_position.get(self._original(position))

    def _original(self, position: int) -> int:
        return self._originals.get(position, position)


def _stood_for(entry: PastEntry, summary: PastMessage) -> bool:
    """Return whether a summary stands for a message that the record had evicted before."""
    assert summary.covers_to is not None
    is_gone = entry.evicted_in is not None and entry.evicted_in < summary.added_in
    return is_gone and entry.position <= summary.covers_to and entry.type is not ChatMessageType.SYSTEM
