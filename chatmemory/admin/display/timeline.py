"""The messages of a conversation in the order of arrival, a page of fixed size at a time.

What is read from the database is bounded by the page and the window, never by the length of the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from django.http import QueryDict

from chatmemory.admin.display.arrivals import Arrival, arrivals, came_when, placeholders
from chatmemory.admin.display.bounded_rows import read_bounded, without_text
from chatmemory.admin.display.message import ShownMessage, most_chars, shown
from chatmemory.admin.display.summaries import (
    SummaryCard,
    is_uncovered,
    standing_for,
    summary_cards,
    uses_summaries,
)
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.numbers import whole_number
from chatmemory.database.operations.compaction.plan import uncovered
from chatmemory.models import MAX_LIMIT, Conversation, Message, Origin

__all__ = [
    "MOST_SHOWN",
    "PER_PAGE",
    "MemoryMap",
    "Timeline",
    "TimelineEntry",
    "memory_entries",
    "place_to_go",
]

PER_PAGE = 50

# Messages of a memory, which is shown without pages.
MOST_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    """One message on the timeline."""

    message: ShownMessage

    running_total: int | None = None
    """Tokens of the memory up to and with this message; None if it is not in the memory."""

    place: int | None = None
    """Its place in the memory, counted from 1, if the memory is in another order than the timeline."""

    pushed_out_by: Arrival | None = None
    """The messages whose adding evicted this one. Which of several evicted it is not recorded."""

    placeholder: int | None = None
    """The position of the placeholder that took its place, if it is a cleared tool result."""

    card: SummaryCard | None = None
    """The messages that it stands for, if it is a summary; else None."""

    summary: int | None = None
    """The position of the summary that stands for it."""

    is_uncovered: bool = False
    """Whether it left for want of room, and is in no summary, though summaries are made of this conversation."""

    is_pinned: bool = False
    """Whether it is pinned, or was at the version that is shown."""

    begins_memory: bool = False
    """Whether the memory begins here: the following messages are retained, except those evicted from the middle."""

    would_go: bool = False
    """Whether a window that is only tried would evict it."""

    is_evicted: bool = False
    """Whether it has left the memory."""

    @property
    def is_folded(self) -> bool:
        """Whether only a line of it is shown at first."""
        return self.is_evicted or self.would_go

    @property
    def is_answer(self) -> bool:
        """Whether it is the result of a tool, which belongs to the call before it."""
        return self.message.row.type == ChatMessageType.TOOL_EXECUTION_RESULT.value


@dataclass(frozen=True, kw_only=True)
class MemoryMap:
    """The places of a memory's messages, by position."""

    edge: int | None
    """The position at which the memory begins, not counting a system message in front; None if it is empty."""

    totals: dict[int, int]
    """Tokens of the memory up to and with each message."""

    places: dict[int, int] = field(default_factory=dict)
    """The places in the memory, counted from 1, of messages that did not arrive in that order."""

    @classmethod
    def of(
        cls, memory: Iterable[tuple[int, str, int]], placeholders: Mapping[int, int] = MappingProxyType({})
    ) -> MemoryMap:
        """Return the map of a memory.

        Args:
            memory: position, type and tokens of each message, in memory order.
            placeholders: the position that each message stands for which took the place of others, by its position.
                They alone do not change the order of the others.
        """
        totals: dict[int, int] = {}
        total = 0
        leads = None
        for position, kind, tokens in memory:
            if not totals and kind == ChatMessageType.SYSTEM.value:
                leads = position
            total += tokens
            totals[position] = total
        in_order = sorted(totals)
        stands = [placeholders.get(position, position) for position in totals]
        places = {
            position: place
            for place, (position, stand, arrived) in enumerate(zip(totals, stands, sorted(stands), strict=True), 1)
            if stand != arrived or position in placeholders
        }
        edge = next((position for position in in_order if position != leads), leads)
        return cls(edge=edge, totals=totals, places=places)

    @classmethod
    def now(cls, conversation: Conversation) -> MemoryMap:
        """Return the map of what the model gets now."""
        columns = ("position", "type", "token_count", "origin", "covers_to")
        rows = list(conversation.messages.retained().values_list(*columns))
        placeholders = {
            position: stand
            for position, *_, origin, stand in rows
            if origin in (Origin.CLEARED, Origin.SUMMARY) and stand is not None
        }
        return cls.of((row[:3] for row in rows), placeholders)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One page of the timeline."""

    entries: list[TimelineEntry]

    start: int
    """Position at which the page starts; its message may have been deleted."""

    total: int
    """Number of positions."""

    edge: int | None
    """Position at which the memory begins; None if it is empty."""

    has_evicted: bool
    """Whether there are evicted messages that were kept."""

    has_uncovered: bool
    """Whether some of them are in no summary, though summaries are made of this conversation."""

    @classmethod
    def read(cls, conversation: Conversation, query: QueryDict, *, with_text: bool) -> Timeline:
        """Read the page that holds ``?position=``; by default the one on which the memory begins.

        With ``&whole=`` the message at that position is not cut.
        """
        total = conversation.next_position
        memory = MemoryMap.now(conversation)
        asked = whole_number(query.get("position", ""), most=MAX_LIMIT)
        if asked is None:
            asked = total - 1 if memory.edge is None else memory.edge
        start = _page_start(max(0, min(asked, total - 1)))
        whole = whole_number(query.get("whole", ""))
        rows = _rows(conversation, start, whole, with_text=with_text)
        came = came_when(conversation, rows)
        pushing = arrivals(rows, came)
        in_place = placeholders(conversation, rows)
        summaries = standing_for(conversation, rows, {version: found.first for version, found in came.items()})
        cards = summary_cards(conversation, rows, with_text=with_text)
        uses = uses_summaries(conversation)
        most = most_chars(len(rows))
        entries = [
            TimelineEntry(
                message=shown(row, with_text=with_text, most=None if row.position == whole else most),
                running_total=memory.totals.get(row.position),
                place=memory.places.get(row.position),
                pushed_out_by=pushing.get(row.position),
                placeholder=in_place.get(row.position),
                card=cards.get(row.position),
                summary=summaries.get(row.position),
                is_uncovered=uses and is_uncovered(conversation, row),
                is_pinned=row.is_pinned,
                begins_memory=row.position == memory.edge,
                is_evicted=not row.is_retained,
            )
            for row in rows
        ]
        return cls(
            entries=entries,
            start=start,
            total=total,
            edge=memory.edge,
            has_evicted=conversation.evicted_count > 0 and conversation.messages.evicted().exists(),
            has_uncovered=uses and uncovered(conversation).exists(),
        )

    @property
    def last(self) -> int:
        """The last position that is on the page."""
        return min(self.start + PER_PAGE, self.total) - 1

    @property
    def previous(self) -> int | None:
        """The start of the previous page; None if there is none."""
        return self.start - PER_PAGE if self.start else None

    @property
    def next(self) -> int | None:
        """The start of the next page; None if there is none."""
        return self.start + PER_PAGE if self.start + PER_PAGE < self.total else None


def memory_entries(
    rows: list[Message], memory: MemoryMap, *, with_text: bool, edge: int | None = None, version: int | None = None
) -> list[TimelineEntry]:
    """Return the entries of a memory, in memory order.

    Args:
        rows: what to show of it.
        memory: what is not in it would go.
        with_text: whether this reader may read what they say.
        edge: the position of the message that is to be marked as the first that stays.
        version: the version at which messages were pinned; by default now.
    """
    most = most_chars(len(rows))
    return [
        TimelineEntry(
            message=shown(row, with_text=with_text, most=most),
            running_total=memory.totals.get(row.position),
            is_pinned=row.is_pinned if version is None else row.was_pinned_at(version),
            begins_memory=row.position == edge,
            would_go=row.position not in memory.totals,
        )
        for row in rows
    ]


def place_to_go(conversation: Conversation, where: str) -> int:
    """Return the position that ``?go=`` asks for: a number, "first-evicted", or "first-uncovered"."""
    position = whole_number(where, most=MAX_LIMIT)
    if position is None:
        left = uncovered(conversation) if where == "first-uncovered" else conversation.messages.evicted()
        position = left.values_list("position", flat=True).first()
    return max(0, min(position or 0, conversation.next_position - 1))


def _page_start(position: int) -> int:
    return position - position % PER_PAGE


def _rows(conversation: Conversation, start: int, whole: int | None, *, with_text: bool) -> list[Message]:
    page = conversation.messages.filter(position__gte=start, position__lt=start + PER_PAGE)
    return read_bounded(page.order_by("position"), first=whole) if with_text else list(without_text(page))
