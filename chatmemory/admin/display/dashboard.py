"""Statistics of the last days, for the app's page in the admin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Count, F, FloatField, QuerySet, Sum
from django.db.models.functions import Cast, TruncDate
from django.utils import timezone

from chatmemory.admin.display.gauge import Gauge, used_in_window
from chatmemory.models import EVICTION_REASONS, Conversation, Message, Origin

__all__ = ["Dashboard", "Day"]

DAYS = 30
FULLEST = 5


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day."""

    day: date
    messages: int
    tokens: int

    messages_height: int
    """Percentage of the most messages that a day has."""

    tokens_height: int
    """Percentage of the most tokens that a day has."""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """Statistics of the last days, of the conversations that were active in them."""

    is_utc: bool
    """Whether days begin at midnight in UTC; without time zones they begin when the server's do."""

    days: list[Day]

    most_messages: int
    """Messages of the busiest day."""

    most_tokens: int
    """Tokens of the day with the most tokens."""

    reasons: list[tuple[Any, int, int]]
    """Reasons of evictions, each with its number of messages and the length of its bar, at most 100."""

    fullest: list[tuple[Conversation, Gauge]]

    @classmethod
    def read(cls, conversations: QuerySet[Conversation]) -> Dashboard:
        """Read the dashboard of these conversations as it is now."""
        now = timezone.now()
        zone = UTC if timezone.is_aware(now) else None
        today = now.astimezone(zone).date() if zone else now.date()
        first = today - timedelta(days=DAYS - 1)
        since = datetime(first.year, first.month, first.day, tzinfo=zone)
        active = conversations.filter(updated_at__gte=since)
        lately = Message.objects.using(conversations.db).filter(conversation__in=active)
        recent = lately.filter(created_at__gte=since, origin=Origin.SAID)
        said = recent.annotate(day=TruncDate("created_at", tzinfo=zone))
        by_day = said.order_by().values_list("day").annotate(Count("pk"), Sum("token_count"))
        evicted = lately.filter(evicted_at__gte=since).order_by().values_list("eviction_reason").annotate(Count("pk"))
        days = _days(first, by_day)
        return cls(
            is_utc=zone is UTC,
            days=days,
            most_messages=max(day.messages for day in days),
            most_tokens=max(day.tokens for day in days),
            reasons=_reasons(dict(evicted)),
            fullest=_fullest(active),
        )


def _days(first: date, rows: Iterable[tuple[date, int, int]]) -> list[Day]:
    counted = {day: (messages, tokens) for day, messages, tokens in rows}
    most_messages = max((messages for messages, _ in counted.values()), default=0) or 1
    most_tokens = max((tokens for _, tokens in counted.values()), default=0) or 1
    days = []
    for offset in range(DAYS):
        day = first + timedelta(days=offset)
        messages, tokens = counted.get(day, (0, 0))
        days.append(
            Day(
                day=day,
                messages=messages,
                tokens=tokens,
                messages_height=_share(messages, most_messages),
                tokens_height=_share(tokens, most_tokens),
            )
        )
    return days


def _reasons(counts: dict[str, int]) -> list[tuple[Any, int, int]]:
    most = max(counts.values(), default=0) or 1
    return [(label, counts.get(value, 0), _share(counts.get(value, 0), most)) for value, label in EVICTION_REASONS]


def _fullest(active: QuerySet[Conversation]) -> list[tuple[Conversation, Gauge]]:
    rows = (
        active.alias(fullness=Cast(used_in_window(), FloatField()) / F("limit"))
        .order_by("-fullness", "-updated_at")
        .defer("metadata")[:FULLEST]
    )
    return [(row, Gauge.of(row)) for row in rows]


def _share(part: int, whole: int) -> int:
    """Return a percentage, at least 2 if there is anything, so that its bar can be seen."""
    return max(2, round(100 * part / whole)) if part else 0
