"""Conversations as files: JSON lines with everything that is known of them, or their history for other programs.

The admin's log records every export, because somebody has a copy then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import router, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatmemory.admin.views.selection import Selection
from chatmemory.admin.views.staff_pages import conversation_or_404, conversation_page, record_read
from chatmemory.formats.registry import message_formats
from chatmemory.models import Conversation
from chatmemory.transfer.export import conversation_lines
from chatmemory.transfer.histories import NotExportableError, history_text

_AS_JSON_LINES = gettext_lazy("Exported as JSON lines.")


def json_lines(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse | StreamingHttpResponse:
    """Answer with a conversation as JSON lines, with everything that is known of it."""
    conversation = conversation_or_404(model_admin, request, object_id, also="read_text")
    lines = conversation_lines([conversation.pk])
    return _logged_file(request, conversation, _AS_JSON_LINES, lines, ".jsonl")


def in_format(
    model_admin: Any, request: HttpRequest, object_id: str, name: str
) -> HttpResponse | StreamingHttpResponse:
    """Answer with the history in a format that has one value for each message."""
    conversation = conversation_or_404(model_admin, request, object_id, also="read_text")
    format = message_formats()[name]
    if format.write_each is None:
        raise Http404
    try:
        text = history_text(conversation, format.write_each)
    except NotExportableError as error:
        context = {"row": error.row, "problem": error.problem}
        response = conversation_page(model_admin, request, conversation, "export_refused", _("Export"), **context)
        response.status_code = 409
        return response
    exported = format_lazy(gettext_lazy("Exported for {format}."), format=format.title)
    return _logged_file(request, conversation, exported, text, f"-{name}.json")


@admin.action(description=gettext_lazy("Export selected conversations as JSON lines"), permissions=["read_text"])
def export_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]
) -> StreamingHttpResponse | None:
    """Answer with the selected conversations as JSON lines, one after the other, and log each export."""
    selection = Selection(model_admin, request, queryset, ("view", "read_text"))
    chosen = []
    with transaction.atomic(using=router.db_for_write(LogEntry)):
        for part in selection.parts():
            record_read(request, *part, what=_AS_JSON_LINES)
            chosen += [conversation.pk for conversation in part]
    selection.report()
    return _file(conversation_lines(chosen), "conversations.jsonl") if chosen else None


def _logged_file(
    request: HttpRequest, conversation: Conversation, what: Any, content: Iterable[str], name: str
) -> StreamingHttpResponse:
    record_read(request, conversation, what=what)
    if request.method == "HEAD":
        content = []
    return _file(content, f"conversation-{conversation.pk}{name}")


def _file(content: Iterable[str], name: str) -> StreamingHttpResponse:
    kind = "application/jsonl" if name.endswith(".jsonl") else "application/json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type=kind, headers=headers)
