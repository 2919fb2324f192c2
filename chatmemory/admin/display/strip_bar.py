"""One message as a bar of a strip, and what the bar says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import grouped
from chatmemory.core.messages import ChatMessageType, UserMessage
from chatmemory.core.summaries import summary_text
from chatmemory.models import EVICTION_REASONS, TYPES, Origin

__all__ = ["BAR_WIDTH", "HEIGHT", "MOST_READ", "STEP", "Bar", "Measured", "bars_of", "first_words"]

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
