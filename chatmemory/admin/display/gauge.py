"""The gauge of a window: how full it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from django.db.models import Case, F, PositiveBigIntegerField, When
from django.utils.formats import number_format
from django.utils.translation import ngettext

from chatmemory.conf import window_default
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.stored_windows import estimator_for, window_of
from chatmemory.models import Conversation


def used_in_window() -> Case:
    """Return the expression for the messages or tokens that a conversation's window counts.

    The request overhead is that of the default model; other models differ by a token.
    """
    request = Window(kind=WindowKind.TOKENS, limit=1, estimator=estimator_for(window_default("model"))).overhead
    return Case(
        When(window=WindowKind.TOKENS.value, retained_count__gt=0, then=F("retained_tokens") + request),
        When(window=WindowKind.TOKENS.value, then=F("retained_tokens")),
        default=F("retained_count"),
        output_field=PositiveBigIntegerField(),
    )


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """A quantity and its limit."""

    used: int
    """The messages, or the tokens of the messages."""

    limit: int

    counts_tokens: bool
    """Whether the window counts tokens; otherwise it counts messages."""

    overhead: int = 0
    """Tokens of request overhead, which a window counts beside ``used``."""

    @classmethod
    def of(cls, conversation: Conversation) -> Self:
        """Return the gauge of a conversation's present window."""
        window = window_of(conversation)
        return cls.with_messages(window, conversation.retained_count, conversation.retained_tokens)

    @classmethod
    def with_messages(cls, window: Window, count: int, tokens: int) -> Self:
        """Return the gauge of a window that holds ``count`` messages with ``tokens`` tokens."""
        if window.kind is WindowKind.MESSAGES:
            return cls(used=count, limit=window.limit, counts_tokens=False)
        # Without a message there is no request.
        overhead = window.overhead if count else 0
        return cls(used=tokens, limit=window.limit, counts_tokens=True, overhead=overhead)

    @property
    def counted(self) -> int:
        """The part of the limit in use as the window counts it, request overhead included."""
        return self.used + self.overhead

    @property
    def percent(self) -> int:
        """The percentage in use, rounded down, so that only a full window has 100."""
        return self.counted * 100 // self.limit

    @property
    def amount(self) -> str:
        """The messages, or their tokens, and the limit, with their unit."""
        if self.counts_tokens:
            words = ngettext("%(used)s of %(limit)s token", "%(used)s of %(limit)s tokens", self.limit)
        else:
            words = ngettext("%(used)s of %(limit)s message", "%(used)s of %(limit)s messages", self.limit)
        return words % {"used": grouped(self.used), "limit": grouped(self.limit)}

    @property
    def fill(self) -> int:
        """The filled percentage of the bar, at least 1 if anything is in use, so that it can be seen."""
        return min(100, max(self.percent, 1 if self.used else 0))

    @property
    def is_over(self) -> bool:
        """Whether the memory exceeds its window, as after a change of the limit outside this app."""
        return self.counted > self.limit


def grouped(number: int) -> str:
    """Return the number with separators between its digits."""
    return number_format(number, decimal_pos=0, use_l10n=True, force_grouping=True)


def count_messages(number: int) -> str:
    """Return a number of messages in words."""
    return ngettext("%(count)s message", "%(count)s messages", number) % {"count": grouped(number)}


def count_tokens(number: int) -> str:
    """Return a number of tokens in words."""
    return ngettext("%(tokens)s token", "%(tokens)s tokens", number) % {"tokens": grouped(number)}
