"""The memory of a conversation as a page shows it: what is always first, what is pinned, and the rest in order.

What is read is bounded by the window, and of a large memory only the newest messages are read whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from django.db.models import Q
from django.db.models.functions import Left
from django.utils.translation import gettext

from chatmemory.admin.display.memory_map import MemoryMap, count_messages, day_and_time, grouped, local_time
from chatmemory.admin.display.message import Passage, ShownMessage, said_by
from chatmemory.admin.display.passages import position_ranges, read_bounded, without_text
from chatmemory.admin.display.timeline import (
    Arrival,
    TimelineEntry,
    history_entries,
    lost_rows,
    pushed_out,
    summarized_by,
)
from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.reading import ANSWERS
from chatmemory.models import Conversation, Message
from chatmemory.models.branch import on_current_branch

_MOST_READ = 60
_MOST_GROUPS = 4

_FOR_ROOM = (EvictionReason.WINDOW.value, EvictionReason.ORPHAN.value)

# Each such change is an event of its own; messages that make room for others leave all day long.
_IN_ONE_CHANGE = EvictionReason.of(Cause.SUMMARY, Cause.SOMEBODY)


@dataclass(frozen=True, kw_only=True)
class EvictedGroup:
    """Messages that left one after the other, on one day, for one reason."""

    entries: list[TimelineEntry]
    """The messages, in the order of the memory."""

    has_more: bool = False
    """Whether more of them may have left than were read."""

    @property
    def count(self) -> str:
        """The number of messages in words."""
        if self.has_more:
            return gettext("%(count)s or more messages") % {"count": grouped(len(self.entries))}
        return count_messages(len(self.entries))

    @property
    def positions(self) -> str:
        """Their positions, as ranges; after ``…`` if more of them may have left than were read."""
        found = position_ranges(entry.message.row.position for entry in self.entries)
        return f"… {found}" if self.has_more and not found.startswith("…") else found

    @property
    def why(self) -> str:
        """The reason of the eviction, and the messages that pushed them out or cover them, or who went back."""
        first = self.entries[0]
        reason = first.message.row.eviction_reason
        if first.exceeds is not None:
            return first.reason if len(self.entries) == 1 else gettext("larger than the whole window")
        came = [entry.pushed_out_by for entry in self.entries if entry.pushed_out_by is not None]
        if reason in _FOR_ROOM and len(came) == len(self.entries):
            return pushed_out(Arrival(first=min(each.first for each in came), last=max(each.last for each in came)))
        if reason == EvictionReason.SUMMARIZED.value and first.summary is not None:
            return summarized_by(first.summary, count=len(self.entries))
        if reason == EvictionReason.TOOL_CLEARED.value and len(self.entries) > 1:
            return gettext("old tool results, cleared")
        return " ".join(filter(None, (str(first.message.row.get_eviction_reason_display()), first.who_went_back)))

    @property
    def last(self) -> ShownMessage:
        """The message that left last."""
        return self.entries[-1].message

    @property
    def when(self) -> str:
        """The minute in which the last of them left."""
        return day_and_time(self.evicted_at)

    @property
    def evicted_at(self) -> datetime:
        """The moment at which the last of them left."""
        return max(entry.message.row.evicted_at for entry in self.entries if entry.message.row.evicted_at)


@dataclass(frozen=True, kw_only=True)
class EvictedLast:
    """The groups of messages that left last, the latest first."""

    groups: list[EvictedGroup]

    left_out: int
    """The number of evicted messages that were kept and are in no group."""

    oldest: int
    """The position of the first message in the oldest group: the others are around it in the history."""

    @classmethod
    def read(cls, conversation: Conversation, memory: MemoryMap, lost: int, *, with_text: bool) -> EvictedLast | None:
        """Read what left last; None if nothing that left was kept.

        Args:
            conversation: the conversation.
            memory: the memory as it is now.
            lost: the number of messages that have left it.
            with_text: whether this reader may read what they say.
        """
        # A range and one direction: every database reads the end of the index backwards, and nothing else.
        left = lost_rows(conversation, memory).order_by("-evicted_in", "-memory_order")
        positions = list(left.values_list("position", flat=True)[:_MOST_READ])
        if not positions:
            return None
        rows = conversation.messages.filter(position__in=positions).order_by("position")
        read = read_bounded(rows, with_text=with_text)
        entries = history_entries(conversation, read, memory, with_text=with_text)
        if not entries:
            return None  # the conversation was erased meanwhile
        groups = _groups(sorted(entries, key=_left, reverse=True))
        kept = lost - conversation.purged_count
        is_cut = len(positions) == _MOST_READ and kept > _MOST_READ
        if is_cut:
            groups[-1] = EvictedGroup(entries=groups[-1].entries, has_more=True)
        groups = groups[:_MOST_GROUPS]
        return cls(
            groups=groups,
            left_out=max(0, kept - sum(len(group.entries) for group in groups)),
            oldest=groups[-1].entries[0].message.row.position,
        )


def _groups(entries: list[TimelineEntry]) -> list[EvictedGroup]:
    latest = entries[0].message.row.evicted_in

    def alike(entry: TimelineEntry) -> tuple[Any, ...]:
        # What left in the latest change is a group of its own, because that is what was forgotten last.
        return entry.message.row.evicted_in == latest, *_kind(entry)

    return [EvictedGroup(entries=list(group)[::-1]) for _, group in groupby(entries, key=alike)]


def _left(entry: TimelineEntry) -> tuple[int, int]:
    row = entry.message.row
    return row.evicted_in or 0, row.memory_order


def _kind(entry: TimelineEntry) -> tuple[Any, ...]:
    """Return what the messages of a group have in common."""
    row = entry.message.row
    reason = EvictionReason.WINDOW.value if row.eviction_reason in _FOR_ROOM else row.eviction_reason
    change = row.evicted_in if reason in _IN_ONE_CHANGE else None
    return reason, change, entry.exceeds, row.evicted_at and local_time(row.evicted_at).date()


@dataclass(frozen=True, kw_only=True)
class LastAnswer:
    """The last answer of the current branch in words, with which one comes to the memory that it was made from."""

    message: ShownMessage

    @classmethod
    def read(cls, conversation: Conversation, *, with_text: bool) -> LastAnswer | None:
        """Read the last answer, without its text for those who may not read it; None if no late message is one.

        For those who may, it is the last that is not only a tool call.
        """
        is_near = Q(position__gte=conversation.next_position - _NEAR)
        near = conversation.messages.filter(ANSWERS, is_near, on_current_branch(conversation))
        answers = without_text(near.order_by("-position"))
        if with_text:
            answers = answers.exclude(text="").annotate(beginning=Left("text", _MOST_CHARS_READ))
        row = answers.first()
        if row is None:
            return None
        return cls(message=ShownMessage(row=row, role=row.get_type_display(), parts=[], is_hidden=not with_text))

    @property
    def when(self) -> str:
        """The minute in which it was written."""
        return day_and_time(self.message.row.created_at)


_NEAR = 1000
_MOST_CHARS_READ = 400

_MOST_SHOWN = 200
_MOST_PINS_SHOWN = 50
_MOST_CHARS_IN_FRONT = 160
_MOST_CHARS = 400
_MOST_LINES = 6


@dataclass(frozen=True, kw_only=True)
class MemoryView:
    """The messages that the model gets now, those that it lost last, and its last answer."""

    last_answer: LastAnswer | None

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
    def read(cls, conversation: Conversation, memory: MemoryMap, lost: int, *, with_text: bool) -> MemoryView:
        """Read the memory, whole if it has up to 200 messages, and what left it last: see ``EvictedLast.read``."""
        entries = with_brief_front(_entries(conversation, memory, with_text=with_text), memory)
        entries = [replace(entry, is_clipped=not entry.is_brief and _fills_a_screen(entry)) for entry in entries]
        front = [entry for entry in entries[:1] if _leads(entry, memory)]
        behind = entries[len(front) :]
        pinned = [entry for entry in behind if entry.is_pinned]
        others = [entry for entry in behind if not entry.is_pinned]
        positions = [entry.message.row.position for entry in others or entries]
        return cls(
            last_answer=LastAnswer.read(conversation, with_text=with_text),
            evicted=EvictedLast.read(conversation, memory, lost, with_text=with_text),
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
        return not self.is_empty or self.evicted is not None or self.last_answer is not None


def _entries(conversation: Conversation, memory: MemoryMap, *, with_text: bool) -> list[TimelineEntry]:
    """Return the entries of the memory, in its order; of a large one the first, the pinned and the newest."""
    places = {position: place for place, position in enumerate(memory.totals, 1)}
    rows = conversation.messages.retained()
    if len(places) > _MOST_SHOWN:
        pins = list(rows.pinned().values_list("position", flat=True)[:_MOST_PINS_SHOWN])
        in_order = list(places)
        front = Q(position=in_order[0], type=ChatMessageType.SYSTEM.value)
        rows = rows.filter(Q(position__in={*pins, *in_order[-_MOST_SHOWN:]}) | front)
    read: list[Message] = read_bounded(rows, with_text=with_text)
    pinned = {row.position: places[row.position] for row in read if row.is_pinned and row.position in places}
    # All of it is the memory, so nothing marks where it begins; only what is shown out of its order has a place.
    shown = replace(memory, edge=None, places=pinned)
    return history_entries(conversation, read, shown, with_text=with_text)


def with_brief_front(entries: list[TimelineEntry], memory: MemoryMap) -> list[TimelineEntry]:
    """Return the entries of a memory, a long system message in front as one line."""
    return [
        replace(
            entry,
            is_brief=_leads(entry, memory)
            and not entry.message.is_hidden
            and len(said_by(entry.message.row)) > _MOST_CHARS_IN_FRONT,
        )
        for entry in entries
    ]


def _fills_a_screen(entry: TimelineEntry) -> bool:
    """Return whether a few such messages would leave no room for others on the first screen."""
    texts = [part.text for part in entry.message.parts if isinstance(part, Passage)]
    return sum(map(len, texts)) > _MOST_CHARS or sum(text.count("\n") + 1 for text in texts) > _MOST_LINES


def _leads(entry: TimelineEntry, memory: MemoryMap) -> bool:
    """Return whether it is the system message that the window keeps in front."""
    row = entry.message.row
    return row.type == ChatMessageType.SYSTEM.value and row.position == next(iter(memory.totals), None)
