"""An anchored head, which no window of the package has: the first turns stay, and those behind them leave."""

from __future__ import annotations

from typing import Any

from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import Window
from chatmemory.database.operations.replay import PastEntry, SimulatedWalk

__all__ = ["Anchored", "AnchoredWalk"]


class Anchored(Retained[PastEntry]):
    """A memory whose first turns stay: as many as ``keep_first`` percent of the limit hold, beside a system message."""

    def __init__(self, *arguments: Any, keep_first: int, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._keep_first = keep_first

    def evict(self) -> None:
        """Evict turns behind the head down to the mark; the head leaves only if the rest does not fit beside it."""
        if self.total <= self._window.room:
            return
        start = self._behind_head()
        while self._is_over_mark() and (end := self._next_turn(start)) is not None:
            start = end - self._evict_turn(start, end)
        super().evict()

    def _behind_head(self) -> int:
        most, cost, index, behind = self._window.room * self._keep_first / 100, 0, 0, 0
        while (entry := self.at(index)) is not None and cost <= most:
            if entry.begins_turn:
                behind = index
            cost += 0 if entry.type is ChatMessageType.SYSTEM else entry.cost
            index += 1
        return behind


class AnchoredWalk(SimulatedWalk):
    """A history under a window with an anchored head."""

    def __init__(self, window: Window, *, keep_first: int) -> None:
        self._keep_first = keep_first
        super().__init__(window, ends=())

    def _new(self, entries: list[PastEntry]) -> Retained[PastEntry]:
        total = self._window.overhead + sum(entry.cost for entry in entries)
        return Anchored(entries, total=total, window=self._window, keep_first=self._keep_first)
