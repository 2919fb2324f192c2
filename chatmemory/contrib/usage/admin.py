"""What a call used, below its answer. Django imports this module when a process starts."""

from __future__ import annotations

from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext

from chatmemory.admin.display.memory_map import grouped
from chatmemory.contrib.usage.models import Usage


def note(row: Usage) -> str:
    """Return the HTML about a call: its model, and what is known of its seconds and tokens."""
    figures: list[str] = [format_html("<bdi>{}</bdi>", row.model)]
    if row.seconds is not None:
        figures.append(gettext("%(seconds)s s") % {"seconds": number_format(row.seconds, 1)})
    if row.input_tokens is not None and row.cache_read_tokens:
        counts = {"count": grouped(row.input_tokens), "cached": grouped(row.cache_read_tokens)}
        figures.append(gettext("%(count)s tokens in (%(cached)s cached)") % counts)
    elif row.input_tokens is not None:
        figures.append(gettext("%(count)s tokens in") % {"count": grouped(row.input_tokens)})
    if row.output_tokens is not None:
        figures.append(gettext("%(count)s out") % {"count": grouped(row.output_tokens)})
    return format_html("<p>{}</p>", format_html_join(" · ", "{}", ((figure,) for figure in figures)))
