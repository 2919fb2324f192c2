"""Statistics of the last days or months, for the app's page in the admin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.db.models import Count, F, FloatField, QuerySet, Sum
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.translation import ngettext

from chatmemory.admin.display.dashboard_chart import Chart
from chatmemory.admin.display.dashboard_period import DAYS, Period
from chatmemory.admin.display.gauge import Gauge, grouped, used_in_window
from chatmemory.models import EVICTION_REASONS, Conversation, Message, Origin

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["Dashboard", "Reason", "Step"]

FULLEST = 5


@dataclass(frozen=True, kw_only=True)
class Step:
    """A day or a month."""

    start: date
    """Its first day."""

    name: str
    messages: int
    tokens: int


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
        evicted = lately.filter(evicted_at__gte=since).order_by().values_list("eviction_reason").annotate(Count("pk"))
        steps = _steps(period, starts, by_step.annotate(Count("pk"), Sum("token_count")))

        def listed(**conditions: object) -> str:
            return "" if list_address is None else f"{list_address}?{urlencode(conditions)}"

        addresses = [
            listed(
                created_at__gte=_midnight(start, zone),
                created_at__lt=_midnight(end, zone),
                origin__exact=Origin.SAID.value,
            )
            for start, end in pairwise(starts)
        ]
        return cls(
            period=period,
            is_utc=zone is UTC,
            steps=steps,
            charts=[
                Chart.of(period.messages_label, _bars(period, steps, addresses, _messages)),
                Chart.of(period.tokens_label, _bars(period, steps, addresses, _tokens)),
            ],
            reasons=_reasons(dict(evicted), listed),
            fullest=_fullest(active),
        )


def _midnight(day: date, zone: tzinfo | None) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def _steps(period: Period, starts: list[date], rows: Iterable[tuple[date, int, int]]) -> list[Step]:
    counted = {start: (messages, tokens) for start, messages, tokens in rows}
    steps = []
    for start in starts[:-1]:
        messages, tokens = counted.get(start, (0, 0))
        steps.append(Step(start=start, name=period.full_name_of(start), messages=messages, tokens=tokens))
    return steps


def _messages(step: Step) -> tuple[int, str]:
    return step.messages, ngettext("%(count)s message", "%(count)s messages", step.messages)


def _tokens(step: Step) -> tuple[int, str]:
    return step.tokens, ngettext("%(count)s token", "%(count)s tokens", step.tokens)


def _bars(
    period: Period, steps: list[Step], addresses: list[str], counted: Callable[[Step], tuple[int, str]]
) -> list[tuple[int, str, str]]:
    bars = []
    for step, address in zip(steps, addresses, strict=True):
        number, words = counted(step)
        # An empty list would be of no use.
        bars.append(
            (
                number,
                f"{period.name_of(step.start)}: {words % {'count': grouped(number)}}",
                address if step.messages else "",
            )
        )
    return bars


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
