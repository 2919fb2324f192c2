"""Messages of a conversation side by side, as bars whose height grows with their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Left

from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.message import said_by
from chatmemory.admin.display.strip_bar import BAR_WIDTH, HEIGHT, MOST_READ, STEP, Bar, Measured, bars_of, first_words
from chatmemory.models import Conversation, Message
from chatmemory.models.pins import is_pin_open

__all__ = ["MOST_BARS", "Strip"]

MOST_BARS = 100
"""The most bars of a strip. Of a conversation with more messages it has the last ones."""

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
        """Read the strip of the last messages, some of which the page shows that has ``first`` to ``last``."""
        total = conversation.next_position
        bars = bars_of([_measured(row) for row in _read(conversation, with_text=with_text)])
        on_page = [bar for bar in bars if first <= bar.position <= last]
        return cls(
            bars=bars,
            first=bars[0].position if bars else 0,
            last=bars[-1].position if bars else 0,
            has_all=len(bars) == total,
            edge_x=_edge_x(bars, memory.edge),
            page_x=on_page[0].x - 1 if on_page else 0,
            page_width=len(on_page) * STEP,
            total=total,
        )

    @classmethod
    def of(cls, rows: Sequence[Message], staying: set[int], edge: int | None, *, with_text: bool) -> Strip:
        """Return the strip of a memory's ``rows`` around its ``edge``; those at the positions ``staying`` are retained.

        Without an edge, it has the oldest rows.
        """
        index = next((index for index, row in enumerate(rows) if row.position == edge), 0)
        start = max(0, min(index - MOST_BARS // 2, len(rows) - MOST_BARS))
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
                for row in rows[start : start + MOST_BARS]
            ]
        )
        return cls(
            bars=bars,
            first=min((bar.position for bar in bars), default=0),
            last=max((bar.position for bar in bars), default=0),
            has_all=len(bars) == len(rows),
            edge_x=_edge_x(bars, edge),
        )


def _read(conversation: Conversation, *, with_text: bool) -> list[dict[str, Any]]:
    rows = conversation.messages.order_by("-position")
    columns = ["position", "type", "token_count", "evicted_in", "origin", "pins", "eviction_reason"]
    if with_text:
        rows = rows.annotate(beginning=Left("text", MOST_READ))
        columns.append("beginning")
    return list(rows.values(*columns)[:MOST_BARS])[::-1]


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
