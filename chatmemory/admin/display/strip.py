"""Messages of a conversation side by side, as bars whose height grows with their tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from django.db.models.functions import Left
from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.message import said_by
from chatmemory.core.messages import ChatMessageType, UserMessage
from chatmemory.core.summaries import summary_text
from chatmemory.models import EVICTION_REASONS, TYPES, Conversation, Message, Origin
from chatmemory.models.message import is_pin_open

__all__ = ["MOST_BARS", "Strip"]

STEP = 8
"""The distance of two bars in the strip's own units."""

BAR_WIDTH = STEP - 2

HEIGHT = 48
"""The height of the highest bar in the strip's own units."""

MOST_READ = 120
"""The most characters that are read of a message for its first words."""

_MOST_WORDS = 80

_CLASSES = {
    ChatMessageType.SYSTEM.value: "system",
    ChatMessageType.USER.value: "user",
    ChatMessageType.AI.value: "ai",
    ChatMessageType.TOOL_EXECUTION_RESULT.value: "tool",
    ChatMessageType.CUSTOM.value: "custom",
}


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


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The columns of a message that its bar is made from."""

    position: int
    type: str
    tokens: int
    is_retained: bool
    origin: str
    is_pinned: bool

    reason: str = ""
    """The reason why it was evicted, or would be, as the column has it; empty if there is none."""

    words: str = ""
    """The first words of the message; empty if this reader may not read them."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One message. Lengths are in the strip's own units, from its top left."""

    position: int

    role: str
    """The role in words."""

    role_class: str
    """The role as the style sheets name it."""

    x: int
    y: int
    height: int

    name: str
    """The message in words: its position, role and tokens."""

    notes: str
    """The special things about the message, in words; empty if there are none."""

    reason: str
    """The reason in words why it was evicted, or would be; empty if there is none."""

    words: str
    is_retained: bool
    is_synthetic: bool

    is_placeholder: bool
    """Whether it stands for a tool result that was cleared; such a bar is not called synthetic."""

    is_pinned: bool
    is_system: bool

    @property
    def left(self) -> int:
        """The x at which its part of the strip begins, a little left of the bar."""
        return self.x - 1

    @property
    def cap_y(self) -> int:
        """The y of the mark above the bar of a system message."""
        return self.y - 7

    @property
    def middle(self) -> int:
        """The x of the middle of the bar."""
        return self.x + BAR_WIDTH // 2


def bars_of(rows: Sequence[Measured]) -> list[Bar]:
    """Return the bars of some messages, from the left to the right."""
    # A square root, so that a short question can still be seen next to a long document.
    highest = max((row.tokens for row in rows), default=0) or 1
    roles = {value: str(label) for value, label in TYPES}
    reasons = {value: str(label) for value, label in EVICTION_REASONS}
    message = gettext("Message %(position)s")
    tokens = {row.tokens: _tokens(row.tokens) for row in rows}
    bars = []
    for index, row in enumerate(rows):
        height = max(3, round(sqrt(row.tokens / highest) * HEIGHT))
        role = roles.get(row.type, row.type)
        bars.append(
            Bar(
                position=row.position,
                role=role,
                role_class=_CLASSES.get(row.type, "custom"),
                x=index * STEP + 1,
                y=HEIGHT - height,
                height=height,
                name=_listed((message % {"position": row.position}, role, tokens[row.tokens])),
                notes=_notes(row),
                reason=reasons.get(row.reason, row.reason),
                words=row.words,
                is_retained=row.is_retained,
                is_synthetic=row.origin not in (Origin.SAID, Origin.CLEARED),
                is_placeholder=row.origin == Origin.CLEARED,
                is_pinned=row.is_pinned,
                is_system=row.type == ChatMessageType.SYSTEM.value,
            )
        )
    return bars


def first_words(text: str, origin: str) -> str:
    """Return the first words of a message in one line, of what was read of its text."""
    if text and origin == Origin.SUMMARY:
        text = summary_text(UserMessage(text))
    line = " ".join(text[:MOST_READ].split())
    return f"{line[:_MOST_WORDS]}…" if len(line) > _MOST_WORDS else line


def _tokens(number: int) -> str:
    return ngettext("%(tokens)s token", "%(tokens)s tokens", number) % {"tokens": grouped(number)}


def _notes(row: Measured) -> str:
    notes = []
    if row.is_pinned:
        notes.append(gettext("pinned"))
    if row.origin == Origin.CLEARED:
        notes.append(gettext("placeholder"))
    elif row.origin == Origin.SUMMARY:
        notes.append(gettext("summary"))
    elif row.origin != Origin.SAID:
        notes.append(gettext("synthetic"))
    return _listed(notes)


def _listed(facts: Iterable[str]) -> str:
    return " · ".join(facts)
