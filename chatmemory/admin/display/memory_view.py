"""The memory of a conversation as a page shows it: what is always first, what is pinned, and the rest in order.

What is read is bounded by the window, and of a large memory only the newest messages are read whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.db.models import Q

from chatmemory.admin.display.bounded_rows import read_bounded, without_text
from chatmemory.admin.display.entries import TimelineEntry, history_entries
from chatmemory.admin.display.evicted_groups import EvictedLast
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.message import said_by
from chatmemory.admin.display.position_ranges import position_ranges
from chatmemory.core.messages import ChatMessageType
from chatmemory.models import Conversation, Message

__all__ = ["MemoryView", "with_brief_front"]

_MOST_SHOWN = 200
_MOST_PINS_SHOWN = 50
_MOST_CHARS_IN_FRONT = 160


@dataclass(frozen=True, kw_only=True)
class MemoryView:
    """The messages that the model gets now, and those that it lost last."""

    evicted: EvictedLast | None
    """The messages that left last; None if nothing that left was kept."""

    always_first: list[TimelineEntry]
    """The system message in front; empty if there is none."""

    pinned: list[TimelineEntry]
    """The pinned messages, each with its place in the memory."""

    others: list[TimelineEntry]
    """All other messages, in the order of the memory."""

    positions: str
    """The positions of all messages of the memory, as ranges."""

    left_out: int
    """The number of messages of the memory that are not shown."""

    edge: int | None
    """The position at which the memory begins, where those that are not shown are found in the history."""

    first: int
    """The lowest position among those shown in order; without any, the position that the next message will have."""

    last: int
    """The highest position; without any, the last that was said."""

    @classmethod
    def read(cls, conversation: Conversation, memory: MemoryMap, *, with_text: bool) -> MemoryView:
        """Read the memory, whole if it has up to 200 messages, and what left it last."""
        entries = with_brief_front(_entries(conversation, memory, with_text=with_text), memory)
        front = [entry for entry in entries[:1] if _leads(entry, memory)]
        behind = entries[len(front) :]
        pinned = [entry for entry in behind if entry.is_pinned]
        others = [entry for entry in behind if not entry.is_pinned]
        positions = [entry.message.row.position for entry in others or entries]
        return cls(
            evicted=EvictedLast.read(conversation, memory, with_text=with_text),
            always_first=front,
            pinned=pinned,
            others=others,
            positions=position_ranges(memory.totals),
            left_out=max(0, len(memory.totals) - len(entries)),
            edge=memory.edge,
            first=min(positions, default=conversation.next_position),
            last=max(positions, default=conversation.next_position - 1),
        )

    @property
    def is_empty(self) -> bool:
        """Whether the model gets nothing."""
        return not (self.always_first or self.pinned or self.others)

    @property
    def has_messages(self) -> bool:
        """Whether any message is shown, in the memory or of those that left."""
        return not self.is_empty or self.evicted is not None


def _entries(conversation: Conversation, memory: MemoryMap, *, with_text: bool) -> list[TimelineEntry]:
    """Return the entries of the memory, in its order; of a large one the first, the pinned and the newest."""
    places = {position: place for place, position in enumerate(memory.totals, 1)}
    rows = conversation.messages.retained()
    if len(places) > _MOST_SHOWN:
        pins = list(rows.pinned().values_list("position", flat=True)[:_MOST_PINS_SHOWN])
        in_order = list(places)
        front = Q(position=in_order[0], type=ChatMessageType.SYSTEM.value)
        rows = rows.filter(Q(position__in={*pins, *in_order[-_MOST_SHOWN:]}) | front)
    read: list[Message] = read_bounded(rows) if with_text else list(without_text(rows))
    pinned = {row.position: places[row.position] for row in read if row.is_pinned and row.position in places}
    # All of it is the memory, so nothing marks where it begins; only what is shown out of its order has a place.
    shown = replace(memory, edge=None, places=pinned)
    return history_entries(conversation, read, shown, with_text=with_text)


def with_brief_front(entries: list[TimelineEntry], memory: MemoryMap) -> list[TimelineEntry]:
    """Return the entries of a memory, a long system message in front as one line."""
    return [replace(entry, is_brief=_leads(entry, memory) and _is_long(entry)) for entry in entries]


def _leads(entry: TimelineEntry, memory: MemoryMap) -> bool:
    """Return whether it is the system message that the window keeps in front."""
    row = entry.message.row
    return row.type == ChatMessageType.SYSTEM.value and row.position == next(iter(memory.totals), None)


def _is_long(entry: TimelineEntry) -> bool:
    """Return whether it would take the room of the messages behind it."""
    return not entry.message.is_hidden and len(said_by(entry.message.row)) > _MOST_CHARS_IN_FRONT
