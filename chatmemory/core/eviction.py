"""The eviction of messages from a memory: one algorithm for both windows and every store.

Source: LangChain4j's ``MessageWindowChatMemory`` and ``TokenWindowChatMemory``, which differ only in what a message
costs. The oldest go first. A system message at the front is protected. An evicted AI message takes the tool results
that directly follow it along, for no model accepts a result without its call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage

__all__ = ["Entry", "EvictionReason", "Retained"]


class EvictionReason(StrEnum):
    """The reason why a message left the memory."""

    WINDOW = "window"
    """The window was full, and the message was the oldest that may leave."""

    ORPHAN = "orphan"
    """The message is a tool result, and its call left."""

    REPLACED = "replaced"
    """A new system message took the message's place."""

    REWRITTEN = "rewritten"
    """The memory was rewritten without the message."""

    CLEARED = "cleared"
    """The memory was cleared."""


@dataclass(eq=False, slots=True)
class Entry:
    """A message in a memory. Two entries are never equal, even if their messages are."""

    message: ChatMessage

    cost: int
    """The part of the window that it takes: 1, or its tokens."""

    row: Any = None
    """The row that it is stored in, for the store's own use."""


class Retained:
    """The messages of one memory, in order, read only as far as they are needed."""

    def __init__(self, entries: Iterable[Entry], *, total: int, limit: int) -> None:
        """
        Args:
            entries: the memory, oldest first. An iterator is read lazily: a few entries more than are evicted.
            total: the cost of all entries, and for tokens the overhead of a request.
            limit: the most that ``total`` may be.
        """
        self.total = total
        self.limit = limit
        self.added: list[Entry] = []
        self.evicted: list[tuple[Entry, EvictionReason]] = []
        self._read: deque[Entry] = deque()
        self._unread = iter(entries)
        self._after_unread: list[Entry] = []

    def add(self, entry: Entry, *, system_message_first: bool = False) -> bool:
        """Add an entry at the end and evict what no longer fits, which may be the entry itself.

        A system message takes the place of the one before it, and with ``system_message_first`` goes to the front.

        Returns:
            False if nothing was added, because the same system message is there already.
        """
        self.evict()
        is_system = isinstance(entry.message, SystemMessage)
        if is_system:
            present = self._first_system_message()
            if present is not None:
                if present.message == entry.message:
                    return False
                self._read.remove(present)
                self._leave(present, EvictionReason.REPLACED)
        if is_system and system_message_first:
            self._read.appendleft(entry)
        else:
            self._after_unread.append(entry)
        self.added.append(entry)
        self.total += entry.cost
        self.evict()
        return True

    def evict(self) -> None:
        """Evict until ``total`` fits ``limit`` or nothing is left that may go."""
        while self.total > self.limit:
            first = self._at(0)
            index = 1 if first is not None and isinstance(first.message, SystemMessage) else 0
            gone = self._at(index)
            if gone is None:
                return
            self._pop(index, EvictionReason.WINDOW)
            if isinstance(gone.message, AiMessage) and gone.message.tool_execution_requests:
                while (orphan := self._at(index)) and isinstance(orphan.message, ToolExecutionResultMessage):
                    self._pop(index, EvictionReason.ORPHAN)

    def entries(self) -> list[Entry]:
        """Return all retained entries, in order."""
        while self._read_more():
            pass
        return list(self._read)

    def _at(self, index: int) -> Entry | None:
        while len(self._read) <= index:
            if not self._read_more():
                return None
        return self._read[index]

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

    def _first_system_message(self) -> Entry | None:
        index = 0
        while (entry := self._at(index)) is not None:
            if isinstance(entry.message, SystemMessage):
                return entry
            index += 1
        return None

    def _pop(self, index: int, reason: EvictionReason) -> None:
        entry = self._read[index]
        del self._read[index]
        self._leave(entry, reason)

    def _leave(self, entry: Entry, reason: EvictionReason) -> None:
        self.total -= entry.cost
        self.evicted.append((entry, reason))
