"""Moments in the lists, which have little room for them."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.dateformat import format
from django.utils.formats import date_format, get_format, time_format
from django.utils.html import format_html
from django.utils.safestring import SafeString


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
