"""Messages of a conversation side by side, as bars whose height grows with their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, CharField, Value, When
from django.db.models.functions import Left

from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.message import said_by
from chatmemory.admin.display.strip_bar import BAR_WIDTH, HEIGHT, MOST_READ, STEP, Bar, Measured, bars_of, first_words
from chatmemory.admin.display.strip_overview import MOST_COUNTED, StripOverview, sampled
from chatmemory.models import Conversation, Message
from chatmemory.models.pins import is_pin_open

__all__ = ["MOST_BARS", "Strip"]

MOST_BARS = 100
"""The most bars of a strip. With more messages it has those around the page, below an overview of all."""

# A few bars are drawn wider than many.
_WIDEST = 32
_WIDTH_OF_FEW = 320


@dataclass(frozen=True, kw_only=True)
class Strip:
    """The bars of as many messages as fit."""

    bars: list[Bar]

    first: int
    """Position of the first message."""

    last: int
    """Position of the last message."""

    has_all: bool
    """Whether it has all messages of the conversation."""

    edge_x: int | None
    """The x at which the memory begins; None if that is not on the strip."""

    page_x: int = 0
    """The x at which the page that is shown begins."""

    page_width: int = 0

    total: int | None = None
    """Number of positions of the conversation; None if the strip is of a memory, not of a history."""

    overview: StripOverview | None = None
    """All messages of the conversation, if the strip has not all."""

    bar_width = BAR_WIDTH
    step = STEP
    height = HEIGHT

    @property
    def width(self) -> int:
        """The width of all bars, in the strip's own units."""
        return len(self.bars) * STEP

    @property
    def drawn_width(self) -> int:
        """The width of all bars on a screen that has room for them."""
        return max(self.width, min(len(self.bars) * _WIDEST, _WIDTH_OF_FEW))

    @property
    def page_end(self) -> int:
        """The x at which the page that is shown ends."""
        return self.page_x + self.page_width

    @property
    def roles(self) -> dict[str, str]:
        """The roles among the bars: their words, by the names that style sheets have for them."""
        return {bar.role_class: bar.role for bar in self.bars}

    @property
    def has_retained(self) -> bool:
        """Whether retained messages are among the bars."""
        return any(bar.is_retained for bar in self.bars)

    @property
    def has_evicted(self) -> bool:
        """Whether evicted messages are among the bars."""
        return not all(bar.is_retained for bar in self.bars)

    @property
    def has_synthetic(self) -> bool:
        """Whether synthetic messages, placeholders aside, are among the bars."""
        return any(bar.is_synthetic for bar in self.bars)

    @property
    def has_placeholders(self) -> bool:
        """Whether placeholders are among the bars."""
        return any(bar.is_placeholder for bar in self.bars)

    @property
    def has_pinned(self) -> bool:
        """Whether pinned messages are among the bars."""
        return any(bar.is_pinned for bar in self.bars)

    @classmethod
    def read(cls, conversation: Conversation, first: int, last: int, memory: MemoryMap, *, with_text: bool) -> Strip:
        """Read the strip around the page that shows the positions ``first`` to ``last``."""
        total = conversation.next_position
        shown = _around(first, last, total)
        found = _read(conversation, shown, with_text=with_text)
        bars = bars_of([_measured(row) for row in found if row["position"] in shown])
        on_page = [bar for bar in bars if first <= bar.position <= last]
        overview = None
        if total > MOST_BARS:
            evicted = {row["position"]: row["token_count"] for row in found if row["evicted_in"] is not None}
            overview = StripOverview.of(total, evicted, memory, shown)
        return cls(
            bars=bars,
            first=bars[0].position if bars else 0,
            last=bars[-1].position if bars else 0,
            has_all=len(bars) == total,
            edge_x=_edge_x(bars, memory.edge),
            page_x=on_page[0].x - 1 if on_page else 0,
            page_width=len(on_page) * STEP,
            total=total,
            overview=overview,
        )

    @classmethod
    def of(cls, rows: Sequence[Message], staying: set[int], edge: int | None, *, with_text: bool) -> Strip:
        """Return the strip of a memory's ``rows`` around its ``edge``; those at the positions ``staying`` are retained.

        Without an edge, it has the oldest rows.
        """
        index = next((index for index, row in enumerate(rows) if row.position == edge), 0)
        around = _around(index, index, len(rows))
        bars = bars_of(
            [
                Measured(
                    position=row.position,
                    type=row.type,
                    tokens=row.token_count,
                    is_retained=row.position in staying,
                    origin=row.origin,
                    is_pinned=row.is_pinned,
                    reason="" if row.position in staying else row.eviction_reason,
                    words=first_words(said_by(row)[:MOST_READ], row.origin) if with_text else "",
                )
                for row in rows[around.start : around.stop]
            ]
        )
        return cls(
            bars=bars,
            first=min((bar.position for bar in bars), default=0),
            last=max((bar.position for bar in bars), default=0),
            has_all=len(bars) == len(rows),
            edge_x=_edge_x(bars, edge),
        )


def _around(first: int, last: int, total: int) -> range:
    """Return as many positions as a strip has bars, with ``first`` to ``last`` in their middle.

    If there are more of those than bars, return the last of them.
    """
    start = (first + last + 1 - MOST_BARS) // 2 if last - first < MOST_BARS else last + 1 - MOST_BARS
    start = max(0, min(start, total - MOST_BARS))
    return range(start, min(start + MOST_BARS, total))


def _read(conversation: Conversation, shown: range, *, with_text: bool) -> list[dict[str, Any]]:
    """Return the rows of the strip and those that its overview is made from, by one statement."""
    total = conversation.next_position
    rows = conversation.messages.order_by("position")
    if total > MOST_COUNTED:
        # An "or" of a range and of many positions would read the whole history on SQLite.
        rows = rows.filter(position__in=sorted({*shown, *sampled(total)}))
    columns = ["position", "type", "token_count", "evicted_in", "origin", "pins", "eviction_reason"]
    if with_text:
        is_shown = When(position__gte=shown.start, position__lt=shown.stop, then=Left("text", MOST_READ))
        rows = rows.annotate(beginning=Case(is_shown, default=Value(""), output_field=CharField()))
        columns.append("beginning")
    return list(rows.values(*columns))


def _measured(row: dict[str, Any]) -> Measured:
    is_retained = row["evicted_in"] is None
    return Measured(
        position=row["position"],
        type=row["type"],
        tokens=row["token_count"],
        is_retained=is_retained,
        origin=row["origin"],
        is_pinned=is_retained and is_pin_open(row["pins"]),
        reason=row["eviction_reason"],
        words=first_words(row.get("beginning", ""), row["origin"]),
    )


def _edge_x(bars: list[Bar], edge: int | None) -> int | None:
    return next((bar.x - 1 for bar in bars if bar.position == edge), None)
