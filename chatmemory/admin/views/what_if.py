"""A page that tries another window on a conversation. Nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.bounded_rows import are_too_long
from chatmemory.admin.display.gauge import Gauge
from chatmemory.admin.display.message import UNREADABLE, unreadable
from chatmemory.admin.display.strip import Strip
from chatmemory.admin.display.timeline import MOST_SHOWN, MemoryMap, memory_entries
from chatmemory.admin.display.window_words import pins_problem
from chatmemory.admin.views.base import conversation_or_404, conversation_page, record_read
from chatmemory.admin.views.window_form import WindowForm
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import WindowKind
from chatmemory.database.estimators import window_of
from chatmemory.database.operations.try_window import WindowTrial
from chatmemory.models import Conversation, Message

__all__ = ["show"]


def show(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Return the page, which tries the settings in the address; ``?window=`` and ``?limit=`` are enough."""
    conversation = conversation_or_404(model_admin, request, object_id)
    form = WindowForm.of(conversation, request.GET)
    context: dict[str, Any] = {"form": form}
    if form.is_valid() and are_too_long(conversation.messages.retained()):
        context["is_too_long"] = True
    elif form.is_valid():
        try:
            trial = conversation.memory.try_window(**form.cleaned_data)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
        except PinnedTooMuchError as error:
            form.add_error("limit", pins_problem(error))
        except UNREADABLE:
            # Which messages are evicted together depends on their contents.
            context["unreadable"] = unreadable(conversation.messages.retained())
            if not context["unreadable"]:
                raise
        else:
            with_text = model_admin.has_read_text_permission(request, conversation)
            if with_text:
                record_read(request, conversation)
            context |= _outcome(conversation, trial, with_text=with_text)
            if model_admin.has_act_permission(request, conversation):
                context["apply"] = urlencode({field.name: field.value() for field in form})
    return conversation_page(model_admin, request, conversation, "what_if", _("Try another window"), **context)


def _outcome(conversation: Conversation, trial: WindowTrial, *, with_text: bool) -> dict[str, Any]:
    for row, reason in trial.evicted:
        row.eviction_reason = reason.value
    rows = sorted([*trial.retained, *(row for row, _reason in trial.evicted)], key=lambda row: row.memory_order)
    memory = MemoryMap.of((row.position, row.type, row.token_count) for row in trial.retained)
    edge = _edge(trial.retained)
    window = replace(window_of(conversation), kind=WindowKind(trial.window), limit=trial.limit)
    return {
        "gauge": Gauge.with_messages(window, len(trial.retained), trial.tokens),
        "strip": Strip.of(rows, set(memory.totals), edge),
        "leaving": len(trial.evicted),
        "staying": len(trial.retained),
        "entries": memory_entries(rows[:MOST_SHOWN], memory, with_text=with_text, edge=edge),
        "left_out": max(0, len(rows) - MOST_SHOWN),
    }


def _edge(retained: list[Message]) -> int | None:
    """Return the position of the first message that stays, in memory order, not counting a system message in front."""
    leads = len(retained) > 1 and retained[0].type == ChatMessageType.SYSTEM.value
    return retained[leads].position if retained else None
