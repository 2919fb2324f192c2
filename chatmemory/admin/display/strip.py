"""Messages of a conversation side by side, as bars whose height grows with their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from chatmemory.admin.display.timeline import PER_PAGE
from chatmemory.core.messages import ChatMessageType
from chatmemory.models import TYPES, Conversation, Message, Origin
from chatmemory.models.pins import is_pin_open

__all__ = ["Bar", "Strip"]

_MOST_BARS = 400
_WIDTH = 8
_HEIGHT = 48

# A few bars are drawn wider than many.
_WIDEST = 32
_WIDTH_OF_FEW = 320

_ROLES = dict(TYPES)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One message. Lengths are in the strip's own units, from its top left."""

    position: int
    role: Any
    x: int
    y: int
    height: int
    is_retained: bool
    is_synthetic: bool

    is_placeholder: bool
    """Whether it stands for a tool result that was cleared; such a bar is not called synthetic."""

    is_summary: bool
    is_pinned: bool
    is_system: bool


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

    bar_width = _WIDTH - 2
    height = _HEIGHT

    @property
    def width(self) -> int:
        """The width of all bars, in the strip's own units."""
        return len(self.bars) * _WIDTH

    @property
    def drawn_width(self) -> int:
        """The width of all bars on a screen that has room for them."""
        return max(self.width, min(len(self.bars) * _WIDEST, _WIDTH_OF_FEW))

    @property
    def has_placeholders(self) -> bool:
        """Whether placeholders are among the bars."""
        return any(bar.is_placeholder for bar in self.bars)

    @property
    def has_pinned(self) -> bool:
        """Whether pinned messages are among the bars."""
        return any(bar.is_pinned for bar in self.bars)

    @classmethod
    def read(cls, conversation: Conversation, page_start: int, edge: int | None) -> Strip:
        """Read the strip around the page that starts at ``page_start``."""
        total = conversation.next_position
        first = max(0, min(page_start + PER_PAGE - _MOST_BARS // 2, total - _MOST_BARS))
        columns = (
            conversation.messages.filter(position__gte=first, position__lt=first + _MOST_BARS)
            .order_by("position")
            .values_list("position", "type", "token_count", "evicted_in", "origin", "pins")
        )
        bars = _bars(
            [
                (*column, evicted_in is None, origin, evicted_in is None and is_pin_open(pins))
                for *column, evicted_in, origin, pins in columns
            ]
        )
        on_page = [bar.x - 1 for bar in bars if page_start <= bar.position < page_start + PER_PAGE]
        return cls(
            bars=bars,
            first=bars[0].position if bars else 0,
            last=bars[-1].position if bars else 0,
            has_all=len(bars) == total,
            edge_x=_edge_x(bars, edge),
            page_x=min(on_page, default=0),
            page_width=len(on_page) * _WIDTH,
        )

    @classmethod
    def of(cls, rows: Sequence[Message], staying: set[int], edge: int | None) -> Strip:
        """Return the strip of the oldest ``rows`` of a memory; those at the positions ``staying`` are retained."""
        bars = _bars(
            [
                (row.position, row.type, row.token_count, row.position in staying, row.origin, row.is_pinned)
                for row in rows[:_MOST_BARS]
            ]
        )
        return cls(
            bars=bars,
            first=min((bar.position for bar in bars), default=0),
            last=max((bar.position for bar in bars), default=0),
            has_all=len(bars) == len(rows),
            edge_x=_edge_x(bars, edge),
        )


def _bars(columns: list[Any]) -> list[Bar]:
    # A square root, so that a short question can still be seen next to a long document.
    highest = max((tokens for _, _, tokens, *_ in columns), default=0) or 1
    bars = []
    for index, (position, kind, tokens, is_retained, origin, is_pinned) in enumerate(columns):
        height = max(3, round(sqrt(tokens / highest) * _HEIGHT))
        bars.append(
            Bar(
                position=position,
                role=_ROLES.get(kind, kind),
                x=index * _WIDTH + 1,
                y=_HEIGHT - height,
                height=height,
                is_retained=is_retained,
                is_synthetic=origin not in (Origin.SAID, Origin.CLEARED),
                is_placeholder=origin == Origin.CLEARED,
                is_summary=origin == Origin.SUMMARY,
                is_pinned=is_pinned,
                is_system=kind == ChatMessageType.SYSTEM.value,
            )
        )
    return bars


def _edge_x(bars: list[Bar], edge: int | None) -> int | None:
    return next((bar.x - 1 for bar in bars if bar.position == edge), None)
