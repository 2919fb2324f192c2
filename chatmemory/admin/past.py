"""What the model saw: the memory at any message or version."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.access import may_read_text
from chatmemory.admin.json_layout import lay_out
from chatmemory.admin.pages import conversation_or_404, conversation_page
from chatmemory.admin.shown_messages import shown
from chatmemory.codec import messages_to_json
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.openai import to_openai
from chatmemory.json_text import dumps
from chatmemory.models import Conversation

__all__ = ["show"]

_MOST_SHOWN = 500


def show(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """The page. ``?version=`` or ``?message=`` (a position) say when; by default it is now."""
    conversation = conversation_or_404(model_admin, request, object_id)
    version, problem = _version(conversation, request)
    with_text = may_read_text(request)
    rows = conversation.messages.in_memory_at(version)
    rows = list(rows if with_text else rows.defer("text", "payload"))
    context: dict[str, Any] = {
        "version": version,
        "problem": problem,
        "asked": request.GET.get("message", ""),
        "shown_messages": [shown(row, with_text=with_text) for row in rows[-_MOST_SHOWN:]],
        "left_out": max(0, len(rows) - _MOST_SHOWN),
        "count": len(rows),
        "tokens": sum(row.token_count for row in rows),
        "with_text": with_text,
    }
    if with_text:
        messages = [row.message for row in rows]
        context["langchain4j"] = lay_out(messages_to_json(messages))
        try:
            context["openai"] = lay_out(dumps(to_openai(messages)))
        except UnsupportedContentError as error:
            context["openai_problem"] = str(error)
    return conversation_page(model_admin, request, conversation, "past", _("What the model saw"), **context)


def _version(conversation: Conversation, request: HttpRequest) -> tuple[int, Any]:
    """The version that is asked for, and what is wrong with the question."""
    message, version = request.GET.get("message"), request.GET.get("version")
    if message:
        position = _number(message)
        rows = conversation.messages.filter(position=position) if position is not None else None
        added_in = rows.values_list("added_in", flat=True).first() if rows is not None else None
        if added_in is None:
            return conversation.version, _("There is no such message; this is the memory now.")
        return added_in, None
    if version:
        number = _number(version)
        if number is None or number > conversation.version:
            return conversation.version, _("There is no such version; this is the memory now.")
        return number, None
    return conversation.version, None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
