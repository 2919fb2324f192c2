"""The eviction of messages from a memory: one algorithm for all windows and stores.

By default, this is LangChain4j's algorithm, whose two windows differ only in the cost of a message. The oldest messages
are evicted first, a system message at the start of the memory is protected, and an evicted AI message takes along the
tool results that directly follow it, because models do not accept a result without its call. The other settings of a
window change how much is evicted, and in what units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import inf
from typing import Generic, Self, TypeVar

from chatmemory.core.entries import RESULT_CLEARED, Entry, EvictionReason
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import Window

E = TypeVar("E", bound=Entry)


class Retained(Generic[E]):
    """The messages of one memory, in order. Messages are read only as far as needed."""

    def __init__(self, entries: Iterable[E], *, total: int, window: Window) -> None:
        """Args:
        entries: the memory, oldest first. An iterator is read lazily, a few entries further than what is evicted.
        total: the cost of all entries; for tokens, with the overhead of a request.
        window: the window that bounds the memory.
        """
        self.total = total
        self.added: list[E] = []
        self.placeholders: list[E] = []
        self.evicted: list[tuple[E, EvictionReason]] = []
        self.intact: float = inf
        """The number of unchanged entries at the start of the memory; infinite if nothing has changed."""
        self._window = window
        self._reason = EvictionReason.WINDOW
        self._question: E | None = None
        """The question of the last turn, if it has been found since the last change."""
        self._read: list[E] = []
        self._unread = iter(entries)
        self._after_unread: list[E] = []

    @classmethod
    def fit(cls, entries: list[E], window: Window) -> Self:
        """Return the whole memory ``entries`` after eviction."""
        retained = cls(entries, total=window.overhead + sum(entry.cost for entry in entries), window=window)
        retained.evict()
        return retained

    def add(self, entry: E) -> bool:
        """Add an entry at the end, and evict what no longer fits. The new entry itself may be evicted.

        A system message replaces the previous one, and goes to the start of the memory if the window says so.

        Returns:
            False if nothing was added, because the memory already contains the same system message.
        """
        self.evict()
        is_system = entry.type is ChatMessageType.SYSTEM
        if is_system:
            present = self._first_system_message()
            if present is not None:
                if present.says_the_same(entry):
                    return False
                place = self._read.index(present)
                del self._read[place]
                self._touch(place)
                self._leave(present, EvictionReason.REPLACED)
        if is_system and self._window.always_keep_system_message_first:
            self._read.insert(0, entry)
            self._touch(0)
        else:
            self._after_unread.append(entry)
        self.added.append(entry)
        self.total += entry.cost
        self.evict()
        return True

    def evict(self) -> None:
        """If ``total`` exceeds the limit, evict down to the low-water mark, as far as messages may be evicted."""
        if self.total <= self._window.room:
            return
        if self._window.keep_tool_results is not None:
            self.clear_tool_results(self._window.keep_tool_results)
        if self._window.whole_turns:
            self._evict_turns()
            self._evict_calls()
        self._evict_oldest()

    def make_room(self) -> None:
        """Evict down to the limit, because a model refused the memory as too long.

        The question of the last turn stays, and so does a tool call at the end with its results, which the model is
        about to answer.
        """
        self._read_all()
        units = list(self.units(self._last_turn()))
        for start, end in units[:1] + units[-1:]:
            for entry in self._read[start:end]:
                entry.pinned = True
        self._reason = EvictionReason.TOO_LONG
        self.evict()

    def clear_tool_results(
        self, keep: int, *, exclude_tools: Collection[str] = (), placeholder: str = RESULT_CLEARED
    ) -> None:
        """Replace old tool results by placeholders, if the placeholders cost less. The last turn stays unchanged.

        Args:
            keep: the number of results, the last of the memory, that stay.
            exclude_tools: the names of tools whose results stay.
            placeholder: the text of the placeholders.
        """
        self._read_all()
        end = self._last_turn()
        results = [index for index, entry in enumerate(self._read) if entry.is_result]
        last = set(results[-keep:]) if keep else set()
        for start, stop in self.units(0, end):
            if self.is_pinned(start, stop):
                continue
            for index in range(start, stop):
                entry = self._read[index]
                stays = not entry.is_result or entry.is_placeholder or index in last or entry.tool in exclude_tools
                if stays:
                    continue
                new = entry.placeholder(placeholder, self._window)
                if new.cost < entry.cost:
                    self._read[index] = new
                    self._touch(index)
                    self._leave(entry, EvictionReason.TOOL_CLEARED)
                    self.placeholders.append(new)
                    self.total += new.cost

    def lasting(self) -> int:
        """Return the number of entries at the start that stay as long as others can be evicted."""
        count = 0
        for start, end in self.units(0):
            if self._read[start].type is not ChatMessageType.SYSTEM and not self._stays(start, end):
                break
            count = end
        return count

    def pinned_cost(self) -> int:
        """Return the cost of the pinned messages and of all messages that stay with them."""
        self._read_all()
        stay = [self._read[start:end] for start, end in self.units(0) if self.is_pinned(start, end)]
        return sum(entry.cost for unit in stay for entry in unit)

    def __len__(self) -> int:
        self._read_all()
        return len(self._read)

    def entries(self) -> list[E]:
        self._read_all()
        return list(self._read)

    def _evict_turns(self) -> None:
        """Evict whole turns, oldest first, down to the low-water mark. The last turn stays."""
        start = 0
        while self._is_over_mark() and (end := self._next_turn(start)) is not None:
            start = end - self._evict_turn(start, end)

    def _evict_turn(self, start: int, end: int) -> int:
        """Evict a turn, except the system message, pinned messages and their question. Return the number of evicted
        messages.
        """
        system = next((i for i in range(end) if self._read[i].type is ChatMessageType.SYSTEM), None)
        leave = [unit for unit in self.units(start, end) if unit[0] != system and not self._stays(*unit)]
        left = 0
        for first, stop in leave:
            self._evict_unit(first - left, stop - left)
            left += stop - first
        return left

    def _evict_calls(self) -> None:
        """Evict calls of the last turn with their results, oldest first, down to the low-water mark. The last call
        stays.
        """
        if not self._is_over_mark():
            return
        self._read_all()
        calls = [unit for unit in self.units(self._last_turn(), len(self._read)) if self._read[unit[0]].has_calls]
        left = 0
        for start, end in calls[:-1]:
            if not self._is_over_mark():
                return
            if not self._stays(start - left, end - left):
                self._evict_unit(start - left, end - left)
                left += end - start

    def _evict_oldest(self) -> None:
        """Evict as LangChain4j does, but down to the low-water mark; with whole turns, only down to the limit.

        The newest message is evicted only if it does not fit the limit. A summary is evicted only before messages of
        the last turn. With ``compact_keep_calls``, older messages of the last turn are evicted before the summary,
        which may cover a part of this turn, and the summary before the question of this turn.
        """
        self._question = None
        while self._is_over_mark() and (unit := self._oldest_unit()) is not None:
            fits = self.total <= self._window.room
            stays = self._is_summary(unit[0]) or self._is_last_question(unit[0])
            if fits and (self._window.whole_turns or stays or self.at(unit[1]) is None):
                return
            self._evict_unit(*unit)

    def _oldest_unit(self) -> tuple[int, int] | None:
        """Return the oldest unit that may be evicted: not pinned, and no system message at the start of the memory.

        A summary may be evicted once only the last turn is left, so that it does not make a turn fail. See
        ``_evict_oldest`` for ``compact_keep_calls``.
        """
        is_first = True
        summary = question = None
        for start, end in self.units(0):
            if self.is_pinned(start, end):
                continue
            if self._is_summary(start):
                summary = summary or (start, end)
            elif self._is_last_question(start):
                question = (start, end)
            elif is_first and self._read[start].type is ChatMessageType.SYSTEM:
                is_first = False
            elif self._window.compact_keep_calls is not None:
                return (start, end) if self.at(end) is not None else summary or question or (start, end)
            else:
                return (start, end) if summary is None or self._next_turn(start) is not None else summary
        return summary or question

    def units(self, start: int, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each unit in a range: a call with the results that follow it, or one message.

        Args:
            start: the index of the first entry.
            end: the index after the last entry, up to which all is read; by default the end of the memory.
        """
        while (end is None or start < end) and (entry := self.at(start)) is not None:
            stop = start + 1
            if entry.has_calls:
                while (result := self.at(stop)) and result.is_result:
                    stop += 1
            yield start, stop
            start = stop

    def _next_turn(self, start: int) -> int | None:
        """Return the start of the turn after the one at ``start``, or None."""
        index = start + 1
        while (entry := self.at(index)) is not None:
            if entry.begins_turn:
                return index
            index += 1
        return None

    def _last_turn(self) -> int:
        """Return the start of the last turn. All entries must have been read."""
        return next((index for index in reversed(range(len(self._read))) if self._read[index].begins_turn), 0)

    def _is_over_mark(self) -> bool:
        return self.total * 100 > self._window.room * self._window.low_water

    def _stays(self, start: int, end: int) -> bool:
        """Return whether a unit stays as long as others can be evicted: it is pinned, or a summary."""
        return self._is_summary(start) or self.is_pinned(start, end)

    def _is_summary(self, index: int) -> bool:
        """Return whether the entry is a summary, or the last compaction that an API wrote."""
        entry = self._read[index]
        if entry.is_summary or not entry.holds_summary:
            return entry.is_summary
        self._read_all()
        return not any(later.holds_summary for later in self._read[index + 1 :])

    def _is_last_question(self, index: int) -> bool:
        """Return whether the entry is the question of the last turn, and the window protects that."""
        entry = self._read[index]
        if self._window.compact_keep_calls is None or not entry.begins_turn:
            return False
        if entry is not self._question and self._next_turn(index) is None:
            self._question = entry
        return entry is self._question

    def is_pinned(self, start: int, end: int) -> bool:
        """Return whether a unit is pinned or, with whole turns, begins a turn with a pinned message."""
        if self._window.whole_turns and self._read[start].begins_turn:
            end = self._next_turn(start) or len(self)
        return any(entry.pinned for entry in self._read[start:end])

    def at(self, index: int) -> E | None:
        """Return the entry at ``index``, or None."""
        while len(self._read) <= index:
            if not self._read_more():
                return None
        return self._read[index]

    def _touch(self, index: int) -> None:
        self.intact = min(self.intact, index)

    def _read_more(self) -> bool:
        entry = next(self._unread, None)
        if entry is not None:
            self._read.append(entry)
            return True
        if self._after_unread:
            self._read.extend(self._after_unread)
            self._after_unread.clear()
            return True
        return False

    def _read_all(self) -> None:
        while self._read_more():
            pass

    def _first_system_message(self) -> E | None:
        index = 0
        while (entry := self.at(index)) is not None:
            if entry.type is ChatMessageType.SYSTEM:
                return entry
            index += 1
        return None

    def _evict_unit(self, start: int, end: int) -> None:
        first, *results = self._read[start:end]
        del self._read[start:end]
        self._touch(start)
        self._leave(first, self._reason)
        for result in results:
            self._leave(result, EvictionReason.ORPHAN)

    def _leave(self, entry: E, reason: EvictionReason) -> None:
        self.total -= entry.cost
        if entry.replaces is None:
            self.evicted.append((entry, reason))
            return
        # A placeholder that is evicted at once does not count: its tool result was evicted for this reason.
        self.placeholders.remove(entry)
        self.evicted.remove((entry.replaces, EvictionReason.TOOL_CLEARED))
        self.evicted.append((entry.replaces, reason))
