"""Times of sources, and times as this project stores them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime


def from_seconds(value: Any) -> datetime | None:
    """Return the time of a number of seconds since 1970; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def from_column(value: Any) -> datetime | None:
    """Return the time in a column, in UTC if it has no time zone; None for anything else.

    SQLite has texts, or milliseconds if JDBC wrote them.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return from_seconds(value / 1000)
    if isinstance(value, str):
        try:
            value = parse_datetime(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def as_stored(moment: datetime) -> datetime:
    """Return a time as this project stores it: with a time zone, or without one if ``USE_TZ = False``."""
    if settings.USE_TZ:
        return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return moment if timezone.is_naive(moment) else timezone.make_naive(moment)
