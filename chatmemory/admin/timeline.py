"""The messages of a conversation in the order of arrival, a page of fixed size at a time.

Whatever is asked of the database is bounded by the page and the window, never by the length of the history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Subquery, Sum
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
        before = conversation.messages.filter(evicted_in__isnull=True, position__lt=start)
        tokens = before.aggregate(tokens=Sum("token_count"))["tokens"] or 0 if start else 0
        entries = []
        for row in rows:
            tokens += row.token_count if row.is_retained else 0
            entries.append(
                TimelineEntry(
                    message=shown(row, with_text=with_text),
                    running_total=tokens if row.is_retained else None,
                    pushed_out_by=arrivals.get(row.pk),
                    is_answer=row.type == ChatMessageType.TOOL_EXECUTION_RESULT,
                    begins_memory=row.position == edge,
                )
            )
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
    # Versions ascend with positions, so the search ends at the first message that came with that version or later:
    # about as far away as the window is long.
    later = Message.objects.filter(
        conversation=OuterRef("conversation"), position__gt=OuterRef("position"), added_in__gte=OuterRef("evicted_in")
    )
    page = conversation.messages.filter(position__gte=start, position__lt=start + PER_PAGE).order_by("position")
    return list(
        (page if with_text else page.defer("text", "payload")).annotate(
            next_arrival=Subquery(later.order_by("position").values("position")[:1])
        )
    )


def _arrivals(conversation: Conversation, rows: list[Any]) -> dict[int, int]:
    """By primary key of an evicted row: the position of the message that came in the version in which it left."""
    pushed = [row for row in rows if row.eviction_reason in _PUSHED_OUT and row.next_arrival is not None]
    candidates = {row.next_arrival for row in pushed}
    came_in = dict(conversation.messages.filter(position__in=candidates).values_list("position", "added_in"))
    return {row.pk: row.next_arrival for row in pushed if came_in.get(row.next_arrival) == row.evicted_in}
