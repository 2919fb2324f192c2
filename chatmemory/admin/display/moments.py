"""Moments in the lists, which have little room for them."""

from __future__ import annotations

from datetime import datetime

from django.utils.formats import date_format, time_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.admin.display.short_day import local_time, short_day

__all__ = ["short_moment"]


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
