"""All messages of a conversation side by side, each as high as it has tokens."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from chatmemory.admin.timeline import PER_PAGE
from chatmemory.messages import ChatMessageType
from chatmemory.models import Conversation

__all__ = ["Bar", "Strip"]

_MOST_BARS = 400
_WIDTH = 8
_HEIGHT = 48


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One message. Lengths are in the strip's own units, from its top left."""

    position: int
    x: int
    y: int
    height: int
    is_retained: bool
    is_synthetic: bool
    is_system: bool


@dataclass(frozen=True, kw_only=True)
class Strip:
    """As many messages as fit, around the page that is shown."""

    bars: list[Bar]

    first: int
    """Position of the first one."""

    last: int
    """Position of the last one."""

    has_all: bool
    """Whether these are all messages."""

    edge_x: int | None
    """Where the memory begins; None if that is not on the strip."""

    page_x: int
    """Where the page that is shown begins."""

    page_width: int

    bar_width = _WIDTH - 2
    height = _HEIGHT

    @property
    def width(self) -> int:
        """Of all bars."""
        return len(self.bars) * _WIDTH

    @classmethod
    def read(cls, conversation: Conversation, page_start: int, edge: int | None) -> Strip:
        """The strip around the page that starts at ``page_start``."""
        total = conversation.next_position
        first = max(0, min(page_start + PER_PAGE - _MOST_BARS // 2, total - _MOST_BARS))
        columns = list(
            conversation.messages.filter(position__gte=first, position__lt=first + _MOST_BARS)
            .order_by("position")
            .values_list("position", "type", "token_count", "evicted_in", "synthetic")
        )
        # A square root, beside which a short question still shows next to a long document.
        highest = max((tokens for _, _, tokens, _, _ in columns), default=0) or 1
        bars = []
        for index, (position, kind, tokens, evicted_in, synthetic) in enumerate(columns):
            height = max(3, round(sqrt(tokens / highest) * _HEIGHT))
            bars.append(
                Bar(
                    position=position,
                    x=index * _WIDTH + 1,
                    y=_HEIGHT - height,
                    height=height,
                    is_retained=evicted_in is None,
                    is_synthetic=synthetic,
                    is_system=kind == ChatMessageType.SYSTEM,
                )
            )
        places = {bar.position: bar.x - 1 for bar in bars}
        on_page = [place for position, place in places.items() if page_start <= position < page_start + PER_PAGE]
        return cls(
            bars=bars,
            first=bars[0].position if bars else 0,
            last=bars[-1].position if bars else 0,
            has_all=len(bars) == total,
            edge_x=None if edge is None else places.get(edge),
            page_x=min(on_page, default=0),
            page_width=len(on_page) * _WIDTH,
        )
