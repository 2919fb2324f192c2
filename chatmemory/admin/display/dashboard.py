"""Statistics of the last days or months, for the app's page in the admin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import Count, DateField, F, FloatField, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Cast, TruncDate, TruncMonth
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.memory_map import Gauge, count_messages, count_tokens, grouped, used_in_window
from chatmemory.models import EVICTION_REASONS, Conversation, Message, Origin

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, kw_only=True)
class Period:
    """A time until today, cut into days or months."""

    name: str
    """Its name in an address."""

    label: StrOrPromise

    messages_label: StrOrPromise
    """The title of the chart of messages; the next is that of tokens."""

    tokens_label: StrOrPromise

    steps: int
    """How many days or months it has."""

    is_in_months: bool

    @classmethod
    def asked_for(cls, query: Mapping[str, Any]) -> Period:
        """Return the period that an address names; the last 30 days unless it names another."""
        return next((period for period in PERIODS if period.name == query.get("period")), DAYS)

    def starts(self, today: date) -> list[date]:
        """Return the first day of each step, the oldest first, and at the end the day after the last step."""
        if not self.is_in_months:
            return [today + timedelta(days=offset) for offset in range(1 - self.steps, 2)]
        last = today.year * 12 + today.month - 1
        return [date(month // 12, month % 12 + 1, 1) for month in range(last - self.steps + 1, last + 2)]

    def step_of(self, column: str, zone: tzinfo | None) -> TruncDate | TruncMonth:
        """Return the expression for the first day of the step in which the moment in ``column`` is."""
        if self.is_in_months:
            return TruncMonth(column, tzinfo=zone, output_field=DateField())
        return TruncDate(column, tzinfo=zone)

    def name_of(self, start: date) -> str:
        """Return a step's name, as short as it may be in this period."""
        return date_format(start, "YEAR_MONTH_FORMAT" if self.is_in_months else "MONTH_DAY_FORMAT")

    def full_name_of(self, start: date) -> str:
        """Return a step's name, with its year."""
        return date_format(start, "YEAR_MONTH_FORMAT" if self.is_in_months else "DATE_FORMAT")


DAYS = Period(
    name="30-days",
    label=_("The last 30 days"),
    messages_label=_("Messages said per day"),
    tokens_label=_("Tokens per day"),
    steps=30,
    is_in_months=False,
)
MONTHS = Period(
    name="12-months",
    label=_("The last 12 months"),
    messages_label=_("Messages said per month"),
    tokens_label=_("Tokens per month"),
    steps=12,
    is_in_months=True,
)
PERIODS = (DAYS, MONTHS)


_FULL = 100
_LOWEST = 1
_WIDTH = 10


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The number of one day or month."""

    says: str
    """The day or month and its number."""

    address: str
    """Where its messages are listed; empty if the reader may not list them."""

    x: int
    """The left end of the space for it."""

    height: int
    """At most 100, and never so little that it cannot be seen, unless the number is 0."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """All bars of one kind, from the oldest to the newest."""

    label: StrOrPromise

    peak: str
    """The highest of the numbers, which is that at the full height, in words."""

    bars: list[Bar]

    @property
    def width(self) -> int:
        """The width of all bars."""
        return _WIDTH * len(self.bars)

    @classmethod
    def of(
        cls,
        label: StrOrPromise,
        steps: Sequence[tuple[int | Decimal, str, str]],
        say: Callable[[Any], str] = grouped,
    ) -> Chart:
        """Return the chart of steps: the number of each, what is said of it, and its address.

        Args:
            label: the title.
            steps: the steps.
            say: returns a number in words.
        """
        most = max(number for number, _, _ in steps)
        bars = [
            Bar(says=says, address=address, x=_WIDTH * index, height=_height(number, most))
            for index, (number, says, address) in enumerate(steps)
        ]
        return cls(label=label, peak=say(most), bars=bars)


def _height(number: int | Decimal, most: int | Decimal) -> int:
    return max(_LOWEST, round(_FULL * number / most)) if number else 0


FULLEST = 5


@dataclass(frozen=True, kw_only=True)
class Step:
    """A day or a month."""

    start: date
    """Its first day."""

    name: str
    messages: int
    tokens: int

    address: str
    """Where its messages are listed; empty if there are none, or the reader may not list them."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A reason for which messages were evicted."""

    label: StrOrPromise
    messages: int

    share: int
    """The length of its bar: at most 100, for the reason with the most messages."""

    address: str
    """Where its messages are listed; empty if the reader may not list them."""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """Statistics of a period, of the conversations that were active in it."""

    period: Period

    is_utc: bool
    """Whether days begin at midnight in UTC; without time zones they begin when the server's do."""

    steps: list[Step]
    """Its days or months, the oldest first."""

    charts: list[Chart]

    reasons: list[Reason]
    """The reasons that there were, the most frequent first."""

    fullest: list[tuple[Conversation, Gauge]]

    @classmethod
    def read(
        cls, conversations: QuerySet[Conversation], period: Period = DAYS, *, list_address: str | None = None
    ) -> Dashboard:
        """Read the dashboard of these conversations as it is now.

        Args:
            conversations: the only ones that it counts.
            period: how far it looks back.
            list_address: where messages are listed, to link there; None if the reader may not list them.
        """
        now = timezone.now()
        zone = UTC if timezone.is_aware(now) else None
        starts = period.starts(now.astimezone(zone).date() if zone else now.date())
        since = _midnight(starts[0], zone)
        active = conversations.filter(updated_at__gte=since)
        lately = Message.objects.using(conversations.db).filter(conversation__in=active)
        said = lately.filter(created_at__gte=since, origin=Origin.SAID)
        by_step = said.annotate(step=period.step_of("created_at", zone)).order_by().values_list("step")
        counted = {start: sums for start, *sums in by_step.annotate(Count("pk"), Sum("token_count"))}
        evicted = _evicted_since(lately, since)

        def listed(**conditions: object) -> str:
            return "" if list_address is None else f"{list_address}?{urlencode(conditions)}"

        steps = []
        for start, end in pairwise(starts):
            messages, tokens = counted.get(start, (0, 0))
            among = {"created_at__gte": _midnight(start, zone), "created_at__lt": _midnight(end, zone)}
            address = listed(**among, origin__exact=Origin.SAID.value) if messages else ""
            name = period.full_name_of(start)
            steps.append(Step(start=start, name=name, messages=messages, tokens=tokens, address=address))

        def chart(label: StrOrPromise, count: Callable[[Step], tuple[int, str]]) -> Chart:
            counts = [(step, *count(step)) for step in steps]
            bars = [(number, f"{period.name_of(step.start)}: {words}", step.address) for step, number, words in counts]
            return Chart.of(label, bars)

        return cls(
            period=period,
            is_utc=zone is UTC,
            steps=steps,
            charts=[
                chart(period.messages_label, lambda step: (step.messages, count_messages(step.messages))),
                chart(period.tokens_label, lambda step: (step.tokens, count_tokens(step.tokens))),
            ],
            reasons=_reasons(evicted, listed),
            fullest=_fullest(active),
        )


def _midnight(day: date, zone: tzinfo | None) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def _evicted_since(rows: QuerySet[Message], since: datetime) -> dict[str, int]:
    """Return the number of messages that were evicted, by reason, without those that the memory has as copies."""
    rows = rows.order_by()
    left = rows.filter(evicted_at__gte=since).exclude(origin=Origin.RESTORED)
    counts = dict(left.values_list("eviction_reason").annotate(Count("pk")))
    originals = Message.objects.filter(conversation=OuterRef("conversation"), position=OuterRef("covers_from"))
    restored = rows.filter(origin=Origin.RESTORED, evicted_in__isnull=True)
    found = restored.annotate(
        left_at=Subquery(originals.values("evicted_at")), why=Subquery(originals.values("eviction_reason"))
    ).filter(left_at__gte=since)
    for reason, count in found.values_list("why").annotate(Count("pk")):
        counts[reason] -= count
    return counts


def _reasons(counts: dict[str, int], listed: Callable[..., str]) -> list[Reason]:
    most = max(counts.values(), default=0)
    reasons = [
        Reason(
            label=label,
            messages=counts[value],
            share=max(2, round(100 * counts[value] / most)),
            address=listed(eviction_reason__exact=value),
        )
        for value, label in EVICTION_REASONS
        if counts.get(value)
    ]
    return sorted(reasons, key=lambda reason: -reason.messages)


def _fullest(active: QuerySet[Conversation]) -> list[tuple[Conversation, Gauge]]:
    rows = (
        active.alias(fullness=Cast(used_in_window(), FloatField()) / F("limit"))
        .order_by("-fullness", "-updated_at")
        .defer("metadata")[:FULLEST]
    )
    return [(row, Gauge.of(row)) for row in rows]
