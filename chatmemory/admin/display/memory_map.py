"""The gauge of a window, how full it is, the map of a memory, and how moments and numbers are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Self

from django.db.models import Case, F, PositiveBigIntegerField, When
from django.utils import timezone
from django.utils.dateformat import format
from django.utils.formats import date_format, get_format, number_format, time_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from chatmemory.conf import window_default
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.stored_windows import estimator_for, window_of
from chatmemory.models import RESERVED, STAND_INS, Conversation, Message, Origin
from chatmemory.models.branch import BranchTree


def used_in_window() -> Case:
    """Return the expression for the messages or tokens that a conversation's window counts.

    The request overhead is that of the default model; other models differ by a token.
    """
    request = Window(kind=WindowKind.TOKENS, limit=1, estimator=estimator_for(window_default("model"))).overhead
    return Case(
        When(window=WindowKind.TOKENS.value, retained_count__gt=0, then=F("retained_tokens") + RESERVED + request),
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

    reserve: int = 0
    """Tokens that stay free for tools and the answer."""

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
        overhead, reserve = (window.overhead, window.reserved) if count else (0, 0)
        return cls(used=tokens, limit=window.limit, counts_tokens=True, overhead=overhead, reserve=reserve)

    @property
    def counted(self) -> int:
        """The part of the limit in use as the window counts it, request overhead and reserve included."""
        return self.used + self.overhead + self.reserve

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
    def share(self) -> str:
        """The percentage in use, in words."""
        return gettext("%(percent)s%%") % {"percent": grouped(self.percent)}

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


def percentage(share: float) -> str:
    """Return a share, from 0 to 1, as a whole percentage."""
    return gettext("%(percent)s%%") % {"percent": grouped(round(100 * share))}


def count_messages(number: int) -> str:
    """Return a number of messages in words."""
    return ngettext("%(count)s message", "%(count)s messages", number) % {"count": grouped(number)}


def count_tokens(number: int) -> str:
    """Return a number of tokens in words."""
    return ngettext("%(tokens)s token", "%(tokens)s tokens", number) % {"tokens": grouped(number)}


@dataclass(frozen=True, kw_only=True)
class MemoryMap:
    """The places of a memory's messages, by position."""

    edge: int | None
    """The position at which the memory begins, not counting a system message in front; None if it is empty."""

    totals: dict[int, int]
    """Tokens of the memory up to and with each message."""

    places: dict[int, int] = field(default_factory=dict)
    """The places in the memory, counted from 1, of messages that did not arrive in that order."""

    restored: Mapping[int, int] = field(default_factory=dict)
    """The positions of restored copies, by the position of the message that each restored."""

    branches: BranchTree | None = None
    """The branches of the conversation; None if it is not the memory of the present."""

    @classmethod
    def of(
        cls,
        memory: Iterable[tuple[int, str, int]],
        placeholders: Mapping[int, int] = MappingProxyType({}),
        restored: Mapping[int, int] = MappingProxyType({}),
    ) -> MemoryMap:
        """Return the map of a memory.

        Args:
            memory: position, type and tokens of each message, in memory order.
            placeholders: for each message that replaced others, by its position, the position that it covers.
                They alone do not change the order of the others.
            restored: the positions of restored copies, by the position of the message that each restored.
        """
        originals = {copy: position for position, copy in restored.items()}
        placeholders = {**placeholders, **originals}
        totals: dict[int, int] = {}
        total = 0
        leads = None
        for position, kind, tokens in memory:
            if not totals and kind == ChatMessageType.SYSTEM.value:
                leads = position
            total += tokens
            totals[position] = total
        in_order = sorted(originals.get(position, position) for position in totals if position != leads)
        stands = [placeholders.get(position, position) for position in totals]
        places = {
            position: place
            for place, (position, stand, arrived) in enumerate(zip(totals, stands, sorted(stands), strict=True), 1)
            if stand != arrived or position in placeholders
        }
        return cls(edge=in_order[0] if in_order else leads, totals=totals, places=places, restored=restored)

    @classmethod
    def now(cls, conversation: Conversation) -> MemoryMap:
        """Return the map of what the model gets now."""
        columns = ("position", "type", "token_count", "origin", "covers_to")
        rows = list(conversation.messages.retained().values_list(*columns))
        stands = [(position, origin, stand) for position, *_, origin, stand in rows if stand is not None]
        placeholders = {position: stand for position, origin, stand in stands if origin in STAND_INS}
        restored = {stand: position for position, origin, stand in stands if origin == Origin.RESTORED}
        memory = cls.of((row[:3] for row in rows), placeholders, restored)
        return replace(memory, branches=BranchTree.read(conversation))

    @property
    def went_back(self) -> bool:
        """Whether the conversation ever went back."""
        return self.branches is not None and self.branches.went_back

    def holds(self, row: Message) -> bool:
        """Return whether the memory has a message of the present: its row, or a restored copy of it."""
        return row.is_retained or row.place in self.restored


def local_time(moment: datetime) -> datetime:
    """Return a moment in the time zone of the page; without time zones, as it is."""
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment


def short_day(moment: datetime) -> str:
    """Return the day of a moment, such as "Nov 17"; with its year if that is not this year."""
    local = local_time(moment)
    if local.year != local_time(timezone.now()).year:
        return date_format(local, "DATE_FORMAT")
    pattern: str = get_format("MONTH_DAY_FORMAT")
    return format(local, pattern.replace("F", "M"))  # the short name of the month


def day_and_time(moment: datetime) -> str:
    """Return a moment to the minute, such as "Nov 17, 2:27 p.m."; with its year if that is not this year."""
    found = {"day": short_day(moment), "time": time_format(local_time(moment).time())}
    return gettext("%(day)s, %(time)s") % found


def short_moment(moment: datetime) -> SafeString:
    """Return the day of a moment, such as "Nov 17", and below it the time; the whole date is shown on hover."""
    local = local_time(moment)
    return format_html(
        '<time datetime="{}" title="{}">{} <span class="chatmemory-time">{}</span></time>',
        moment.isoformat(),
        date_format(local, "DATETIME_FORMAT"),
        short_day(moment),
        time_format(local.time()),
    )
