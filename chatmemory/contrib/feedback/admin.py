"""Feedback below answers, and a filter of the list of conversations. Django imports this module at the start."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.memory_map import local_time
from chatmemory.contrib.feedback.models import Feedback, Thumb
from chatmemory.models import Conversation


class FeedbackFilter(admin.SimpleListFilter):
    """A filter by the feedback to the answers of a conversation."""

    title = _("feedback")
    parameter_name = "feedback"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*Thumb.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Conversation]) -> QuerySet[Conversation]:
        if self.value() not in Thumb.values:
            return queryset
        rated = Feedback.objects.using(queryset.db).filter(value=self.value())
        return queryset.filter(pk__in=rated.values("conversation"))


def notes(rows: QuerySet[Feedback], *, with_text: bool) -> dict[int, str]:
    """Return the HTML of feedback by the position of its message, the oldest first.

    Args:
        rows: the feedback.
        with_text: whether this reader may read comments.
    """
    found: defaultdict[int, list[Feedback]] = defaultdict(list)
    for row in rows.select_related("user").order_by("created_at", "pk"):
        found[row.position].append(row)
    return {
        position: format_html_join("", "{}", ((_note(row, with_text=with_text),) for row in given))
        for position, given in found.items()
    }


def _note(row: Feedback, *, with_text: bool) -> str:
    moment = local_time(row.updated_at)
    said = format_html(
        '<strong>{}</strong> · <bdi>{}</bdi> · <time datetime="{}">{}</time>',
        row.get_value_display(),
        gettext("unknown user") if row.user is None else str(row.user),
        moment.isoformat(),
        date_format(moment, "DATETIME_FORMAT"),
    )
    if not row.comment:
        comment = ""
    elif with_text:
        comment = format_html('<br><q dir="auto">{}</q>', row.comment)
    else:
        comment = format_html("<br>{}", gettext("You have no permission to read the comment."))
    return format_html("<p>{}{}</p>", said, comment)
