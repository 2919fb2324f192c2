"""Conversations as files: JSON lines with everything that is known of each message, or what other programs read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatmemory.admin.access import may_read_text
from chatmemory.admin.pages import conversation_or_404
from chatmemory.codec import message_to_data, messages_to_json
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.openai import to_openai
from chatmemory.json_text import dumps
from chatmemory.models import Conversation, Message

__all__ = ["export_selected", "json_lines", "langchain4j", "openai"]


def json_lines(model_admin: Any, request: HttpRequest, object_id: str) -> StreamingHttpResponse:
    """Every message with its state, one on each line."""
    conversation = conversation_or_404(model_admin, request, object_id, may=may_read_text(request))
    model_admin.log_change(request, conversation, _("Exported as JSON lines."))
    return _file(_lines([conversation]), f"conversation-{conversation.pk}.jsonl", "application/jsonl")


def openai(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse | StreamingHttpResponse:
    """The history in the format of OpenAI's chat completions."""
    conversation = conversation_or_404(model_admin, request, object_id, may=may_read_text(request))
    try:
        text = dumps(to_openai(row.message for row in conversation.messages.history()))
    except UnsupportedContentError as error:
        return HttpResponse(str(error), status=409, content_type="text/plain; charset=utf-8")
    model_admin.log_change(request, conversation, _("Exported for OpenAI."))
    return _file([text], f"conversation-{conversation.pk}-openai.json", "application/json")


def langchain4j(model_admin: Any, request: HttpRequest, object_id: str) -> StreamingHttpResponse:
    """The history in LangChain4j's JSON."""
    conversation = conversation_or_404(model_admin, request, object_id, may=may_read_text(request))
    model_admin.log_change(request, conversation, _("Exported for LangChain4j."))
    text = messages_to_json(row.message for row in conversation.messages.history())
    return _file([text], f"conversation-{conversation.pk}-langchain4j.json", "application/json")


@admin.action(description=gettext_lazy("Export selected conversations as JSON lines"), permissions=["read_text"])
def export_selected(model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]) -> StreamingHttpResponse:
    """The same for several at once, one after the other."""
    conversations = list(queryset)
    for conversation in conversations:
        model_admin.log_change(request, conversation, _("Exported as JSON lines."))
    return _file(_lines(conversations), "conversations.jsonl", "application/jsonl")


def _lines(conversations: Iterable[Conversation]) -> Iterator[str]:
    for conversation in conversations:
        for row in conversation.messages.order_by("position").iterator():
            yield dumps({"conversation": conversation.pk, "memory_id": conversation.memory_id, **_fields(row)}) + "\n"


def _fields(row: Message) -> dict[str, Any]:
    return {
        "position": row.position,
        "message": message_to_data(row.message),
        "state": "retained" if row.is_retained else "evicted",
        "reason": row.eviction_reason or None,
        "token_count": row.token_count,
        "synthetic": row.synthetic,
        "added_in": row.added_in,
        "evicted_in": row.evicted_in,
        "evicted_at": row.evicted_at.isoformat() if row.evicted_at else None,
        "created_at": row.created_at.isoformat(),
    }


def _file(content: Iterable[str], name: str, kind: str) -> StreamingHttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type=kind, headers=headers)
