"""The messages of a conversation in the order of arrival, a page of fixed size at a time.

Whatever is asked of the database is bounded by the page and the window, never by the length of the history.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, islice

from django.db.models import Sum
from django.http import QueryDict

from chatmemory.admin.shown_messages import ShownMessage, shown
from chatmemory.eviction import EvictionReason
from chatmemory.messages import ChatMessageType
from chatmemory.models import Conversation, Message

__all__ = ["PER_PAGE", "Timeline", "TimelineEntry", "window_edge"]

PER_PAGE = 50

# What left for one of these reasons had to make room for another message, or went with one that had to.
_PUSHED_OUT = {EvictionReason.WINDOW.value, EvictionReason.ORPHAN.value, EvictionReason.REPLACED.value}


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    """One message on the timeline."""

    message: ShownMessage

    running_total: int | None
    """Tokens of the memory up to and with this message; None for one that has left."""

    pushed_out_by: int | None
    """Position of the message whose arrival pushed this one out."""

    is_answer: bool
    """Whether it is the result of a tool, which belongs to the call before it."""

    begins_memory: bool
    """Whether the memory begins here: what follows is retained, but for what was taken out of the middle."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One page of it."""

    entries: list[TimelineEntry]

    start: int
    """Position at which the page starts, whether or not there is still a message."""

    total: int
    """How many positions there are."""

    edge: int | None
    """Where the memory begins; None if it is empty."""

    @classmethod
    def read(cls, conversation: Conversation, query: QueryDict, *, with_text: bool) -> Timeline:
        """The page that holds ``?position=``; by default the one on which the memory begins."""
        total = conversation.next_position
        edge = window_edge(conversation)
        start = _page_start(_position(query, default=total - 1 if edge is None else edge, total=total))
        rows = _rows(conversation, start, with_text=with_text)
        arrivals = _arrivals(conversation, rows)
        totals = _running_totals(conversation, rows)
        entries = [
            TimelineEntry(
                message=shown(row, with_text=with_text),
                running_total=totals.get(row.pk),
                pushed_out_by=arrivals.get(row.pk),
                is_answer=row.type == ChatMessageType.TOOL_EXECUTION_RESULT,
                begins_memory=row.position == edge,
            )
            for row in rows
        ]
        return cls(entries=entries, start=start, total=total, edge=edge)

    @property
    def last(self) -> int:
        """The last position that is on the page."""
        return min(self.start + PER_PAGE, self.total) - 1

    @property
    def previous(self) -> int | None:
        """Where the page before starts."""
        return self.start - PER_PAGE if self.start else None

    @property
    def next(self) -> int | None:
        """Where the page after starts."""
        return self.start + PER_PAGE if self.start + PER_PAGE < self.total else None


def window_edge(conversation: Conversation) -> int | None:
    """The position at which the memory begins, a system message in front aside."""
    first = list(conversation.messages.retained().values_list("type", "position")[:2])
    if len(first) == 2 and first[0][0] == ChatMessageType.SYSTEM:
        return int(first[1][1])
    return int(first[0][1]) if first else None


def _position(query: QueryDict, *, default: int, total: int) -> int:
    text = query.get("position", "")
    position = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else default
    return max(0, min(position, total - 1))


def _page_start(position: int) -> int:
    return position - position % PER_PAGE


def _rows(conversation: Conversation, start: int, *, with_text: bool) -> list[Message]:
    page = conversation.messages.filter(position__gte=start, position__lt=start + PER_PAGE).order_by("position")
    return list(page if with_text else page.defer("text", "payload"))


def _running_totals(conversation: Conversation, rows: list[Message]) -> dict[int, int]:
    """By primary key of a retained row: the tokens of the memory up to and with it."""
    orders = [row.memory_order for row in rows if row.is_retained]
    if not orders:
        return {}
    # By memory order, for which there is an index that has retained rows only.
    retained = conversation.messages.retained()
    before = retained.filter(memory_order__lt=min(orders)).order_by().aggregate(tokens=Sum("token_count"))
    shown_part = retained.filter(memory_order__gte=min(orders), memory_order__lte=max(orders))
    keys_and_tokens = list(shown_part.values_list("pk", "token_count"))
    sums = accumulate((tokens for _, tokens in keys_and_tokens), initial=before["tokens"] or 0)
    return dict(zip((key for key, _ in keys_and_tokens), islice(sums, 1, None), strict=True))


def _arrivals(conversation: Conversation, rows: list[Message]) -> dict[int, int]:
    """By primary key of an evicted row: the position of the message that came in the version in which it left."""
    pushed = [row for row in rows if row.eviction_reason in _PUSHED_OUT]
    if not pushed:
        return {}
    latest = max(row.evicted_in or 0 for row in pushed)
    came_with: dict[int, int] = {}
    # Versions ascend with positions, so the search ends about as far away as the window is long.
    start, size = pushed[0].position + 1, 4 * PER_PAGE
    while start < conversation.next_position:
        chunk = conversation.messages.filter(position__gte=start, position__lt=start + size).order_by("position")
        added_in = 0
        for position, added_in in chunk.values_list("position", "added_in"):
            came_with.setdefault(added_in, position)
        if added_in >= latest:
            break
        start, size = start + size, size * 4
    arrivals = {row.pk: came_with.get(row.evicted_in or 0, 0) for row in pushed}
    return {row.pk: arrivals[row.pk] for row in pushed if arrivals[row.pk] > row.position}
