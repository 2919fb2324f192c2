"""Conversations as files: JSON lines with everything that is known of them, or what other programs read.

Who took a copy must be known, so each is logged. A file comes by a link, hence by a GET; that one writes to the log
although a GET is not meant to write. A HEAD does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.db import router, transaction
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils import translation
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatmemory.admin.views.base import conversation_or_404, conversation_page
from chatmemory.admin.views.selection import Selection
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.core.serialization.codec import message_to_json
from chatmemory.database.rows import read_in_parts
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import message_formats
from chatmemory.models import Conversation, Message
from chatmemory.transfer.json_lines.write import conversation_lines, message_or_problem

__all__ = ["export_selected", "in_format", "json_lines", "langchain4j"]

_PLAIN = Q(payload__isnull=True, type__in=[ChatMessageType.SYSTEM, ChatMessageType.USER, ChatMessageType.AI])

_AS_JSON_LINES = gettext_lazy("Exported as JSON lines.")


class _NotExportableError(Exception):
    """A format cannot hold a message."""

    def __init__(self, row: Message, problem: str) -> None:
        self.row = row
        self.problem = problem
        super().__init__(row, problem)


def json_lines(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse | StreamingHttpResponse:
    """Everything that is known of the conversation."""
    conversation = conversation_or_404(model_admin, request, object_id, also="read_text")
    lines = conversation_lines([conversation.pk])
    return _logged_file(model_admin, request, conversation, _AS_JSON_LINES, lines, ".jsonl")


def in_format(
    model_admin: Any, request: HttpRequest, object_id: str, name: str
) -> HttpResponse | StreamingHttpResponse:
    """The history in a format that has a value for each message."""
    conversation = conversation_or_404(model_admin, request, object_id, also="read_text")
    format = message_formats()[name]
    if format.write_each is None:
        raise Http404
    try:
        text = dumps(_written(conversation, format.write_each))
    except _NotExportableError as error:
        return _refusal(model_admin, request, conversation, error)
    return _logged_file(model_admin, request, conversation, _exported(format.title), [text], f"-{name}.json")


def langchain4j(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse | StreamingHttpResponse:
    """The history in LangChain4j's JSON."""
    conversation = conversation_or_404(model_admin, request, object_id, also="read_text")
    try:
        # Before the first byte: a plain text can always be read, and is read only once.
        for row in read_in_parts(conversation.messages.history().exclude(_PLAIN)):
            _readable(row)
    except _NotExportableError as error:
        return _refusal(model_admin, request, conversation, error)
    text = _for_langchain4j(conversation)
    return _logged_file(model_admin, request, conversation, _exported("LangChain4j"), text, "-langchain4j.json")


@admin.action(description=gettext_lazy("Export selected conversations as JSON lines"), permissions=["read_text"])
def export_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]
) -> StreamingHttpResponse | None:
    """The same for several at once, one after the other."""
    selection = Selection(model_admin, request, queryset, ("view", "read_text"))
    chosen = []
    user_id: Any = request.user.pk
    with transaction.atomic(using=router.db_for_write(LogEntry)), translation.override(settings.LANGUAGE_CODE):
        for part in selection.parts():
            LogEntry.objects.log_actions(user_id, part, CHANGE, str(_AS_JSON_LINES))
            chosen += [conversation.pk for conversation in part]
    selection.report()
    return _file(conversation_lines(chosen), "conversations.jsonl") if chosen else None


def _readable(row: Message) -> ChatMessage:
    message, problem = message_or_problem(row)
    if message is None:
        raise _NotExportableError(row, problem)
    return message


def _exported(title: str) -> Any:
    return format_lazy(gettext_lazy("Exported for {format}."), format=title)


def _written(conversation: Conversation, write: Callable[[list[ChatMessage]], list[Any]]) -> list[Any]:
    rows = list(read_in_parts(conversation.messages.history()))
    try:
        return write([_readable(row) for row in rows])
    except UnsupportedContentError as error:
        raise _NotExportableError(rows[error.index], error.problem) from None


def _for_langchain4j(conversation: Conversation) -> Iterator[str]:
    start = "["
    for row in read_in_parts(conversation.messages.history()):
        yield start + message_to_json(row.message)
        start = ","
    yield "]" if start == "," else "[]"


def _refusal(
    model_admin: Any, request: HttpRequest, conversation: Conversation, error: _NotExportableError
) -> HttpResponse:
    answer = conversation_page(
        model_admin, request, conversation, "export_refused", _("Export"), row=error.row, problem=error.problem
    )
    answer.status_code = 409
    return answer


def _logged_file(
    model_admin: Any, request: HttpRequest, conversation: Conversation, what: Any, content: Iterable[str], name: str
) -> StreamingHttpResponse:
    if request.method == "HEAD":
        content = []
    else:
        # The log is read by all staff, so it is not written in the language of whoever acts.
        with translation.override(settings.LANGUAGE_CODE):
            model_admin.log_change(request, conversation, str(what))
    return _file(content, f"conversation-{conversation.pk}{name}")


def _file(content: Iterable[str], name: str) -> StreamingHttpResponse:
    kind = "application/jsonl" if name.endswith(".jsonl") else "application/json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type=kind, headers=headers)
