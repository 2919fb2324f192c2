"""Messages of a conversation side by side, as bars whose height grows with their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models.functions import Left
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.memory_map import MemoryMap, count_tokens
from chatmemory.admin.display.message import role_of, said_by
from chatmemory.admin.display.passages import without_text
from chatmemory.admin.display.timeline import restored_as
from chatmemory.core.messages import ChatMessageType, UserMessage
from chatmemory.core.summaries import summary_text
from chatmemory.models import Conversation, Message, Origin
from chatmemory.models.message import EVICTION_REASONS, TYPES

STEP = 8
"""The distance of two bars in the strip's own units."""

BAR_WIDTH = STEP - 2

HEIGHT = 48
"""The height of the highest bar in the strip's own units."""

_LOWEST = 3  # so that a short question can still be seen next to a long document

MOST_READ = 120
"""The most characters that are read of a message for its first words."""

_MOST_WORDS = 80

_REASONS = dict(EVICTION_REASONS)  # get_eviction_reason_display() translates all for one of them
_ORIGINS = {
    Origin.SAID: "",
    Origin.CLEARED: _("placeholder"),
    Origin.SUMMARY: _("summary"),
    Origin.RESTORED: _("restored"),
}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The bar of one message. Lengths are in the strip's own units, from its top left."""

    row: Message

    x: int
    height: int

    role: str
    """The role in words."""

    name: str
    """The message in words: its position, role and tokens."""

    words: str
    """The first words of the message; empty if this reader may not read them."""

    is_retained: bool
    """Whether the memory has the message, in this row or as a restored copy."""

    restored_as: int | None = None
    """The position of its copy in the memory, if it has left but was restored."""

    @property
    def y(self) -> int:
        """The y of the top of the bar."""
        return HEIGHT - self.height

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

    @cached_property
    def role_class(self) -> str:
        """The role as the style sheets name it."""
        return role_of(self.row)

    @property
    def reason(self) -> str:
        """The reason in words why the message was evicted; empty if there is none."""
        return "" if self.is_retained else str(_REASONS.get(self.row.eviction_reason, self.row.eviction_reason))

    @property
    def notes(self) -> str:
        """The special things about the message, in words; empty if there are none."""
        pinned = gettext("pinned") if self.row.is_pinned else ""
        origin = str(_ORIGINS.get(Origin(self.row.origin), _("synthetic")))
        copy = "" if self.restored_as is None else restored_as(self.restored_as)
        return " · ".join(filter(None, (pinned, origin, copy)))

    @cached_property
    def marks(self) -> set[str]:
        """The marks that are drawn on the bar. A placeholder is not called synthetic."""
        marks = {
            "retained": self.is_retained,
            "evicted": not self.is_retained,
            "synthetic": self.row.origin not in (Origin.SAID, Origin.CLEARED),
            "placeholder": self.row.origin == Origin.CLEARED,
            "pinned": self.row.is_pinned,
            "system": self.row.type == ChatMessageType.SYSTEM.value,
        }
        return {mark for mark, has in marks.items() if has}


def bars_of(rows: Sequence[Message], memory: MemoryMap, *, with_text: bool) -> list[Bar]:
    """Return the bars of some messages, from the left to the right."""
    highest = max((row.token_count for row in rows), default=0) or 1
    # Each is translated once, not for each bar.
    message, roles = gettext("Message %(position)s"), {value: str(label) for value, label in TYPES}
    tokens = {row.token_count: count_tokens(row.token_count) for row in rows}
    return [
        Bar(
            row=row,
            x=index * STEP + 1,
            height=max(_LOWEST, round(row.token_count / highest * HEIGHT)),
            role=(role := roles.get(row.type, row.type)),
            name=" · ".join((message % {"position": row.position}, role, tokens[row.token_count])),
            words=first_words(row) if with_text else "",
            is_retained=memory.holds(row),
            restored_as=None if row.is_retained else memory.restored.get(row.place),
        )
        for index, row in enumerate(rows)
    ]


def first_words(row: Message) -> str:
    """Return the first words of a message in one line, of what was read of its text."""
    text = said_by(row)[:MOST_READ]
    if text and row.origin == Origin.SUMMARY:
        text = summary_text(UserMessage(text))
    line = " ".join(text.split())
    return f"{line[:_MOST_WORDS]}…" if len(line) > _MOST_WORDS else line


MOST_BARS = 100
"""The most bars of a strip. Of a conversation with more messages it has the last ones."""

# A few bars are drawn wider than many.
_WIDEST = 32
_WIDTH_OF_FEW = 320


@dataclass(frozen=True, kw_only=True)
class Strip:
    """The bars of as many messages as fit."""

    bars: list[Bar]

    has_all: bool
    """Whether it has all messages of the conversation."""

    edge_x: int | None
    """The x at which the memory begins; None if that is not on the strip."""

    page_x: int
    """The x at which the page that is shown begins."""

    page_width: int

    total: int
    """Number of positions of the conversation."""

    most: int
    """The tokens of the highest bar."""

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

    @cached_property
    def marks(self) -> set[str]:
        """The marks of all bars, which the legend explains."""
        return set[str]().union(*(bar.marks for bar in self.bars))

    @classmethod
    def read(cls, conversation: Conversation, first: int, last: int, memory: MemoryMap, *, with_text: bool) -> Strip:
        """Read the strip of the last messages, some of which the page shows that has ``first`` to ``last``."""
        total = conversation.next_position
        newest = without_text(conversation.messages.order_by("-position"))
        if with_text:
            newest = newest.annotate(beginning=Left("text", MOST_READ))
        rows = list(newest[:MOST_BARS])[::-1]
        bars = bars_of(rows, memory, with_text=with_text)
        on_page = [bar for bar in bars if first <= bar.row.position <= last]
        return cls(
            bars=bars,
            has_all=len(bars) == total,
            edge_x=_edge_x(bars, memory.edge),
            page_x=on_page[0].left if on_page else 0,
            page_width=len(on_page) * STEP,
            total=total,
            most=max((row.token_count for row in rows), default=0),
        )


def _edge_x(bars: list[Bar], edge: int | None) -> int | None:
    return next((bar.left for bar in bars if bar.row.position == edge), None)
