"""Days, as short as they can be said in the language of the page."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.dateformat import format
from django.utils.formats import date_format, get_format

__all__ = ["local_time", "short_day"]


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
