"""What if: another window tried on a conversation. Nothing is written."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.access import may_act, may_read_text
from chatmemory.admin.gauge import Gauge
from chatmemory.admin.pages import conversation_or_404, conversation_page
from chatmemory.admin.shown_messages import shown
from chatmemory.models import MAX_LIMIT, WINDOWS, Conversation
from chatmemory.window import WindowKind

__all__ = ["WindowForm", "show"]

_MOST_SHOWN = 500


class WindowForm(forms.Form):
    """A window."""

    window = forms.ChoiceField(label=_("Window"), choices=WINDOWS)
    limit = forms.IntegerField(label=_("Limit"), min_value=1, max_value=MAX_LIMIT)

    @classmethod
    def of(cls, conversation: Conversation, data: Any = None) -> WindowForm:
        """Filled with the window that the conversation has."""
        return cls(data or None, initial={"window": conversation.window, "limit": conversation.limit})


def show(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """The page. ``?window=`` and ``?limit=`` are tried."""
    conversation = conversation_or_404(model_admin, request, object_id)
    form = WindowForm.of(conversation, request.GET)
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        with_text = may_read_text(request)
        trial = conversation.try_window(**form.cleaned_data)
        for row, reason in trial.evicted:
            row.eviction_reason = reason.value
        counts_tokens = trial.window == WindowKind.TOKENS
        used = trial.tokens if counts_tokens else len(trial.retained)
        rows = sorted([*trial.retained, *(row for row, _ in trial.evicted)], key=lambda row: row.memory_order)
        context |= {
            "gauge": Gauge(used=used, limit=trial.limit, counts_tokens=counts_tokens),
            "going": {row.pk for row, _ in trial.evicted},
            "leaving": len(trial.evicted),
            "staying": len(trial.retained),
            "shown_messages": [shown(row, with_text=with_text) for row in rows[:_MOST_SHOWN]],
            "left_out": max(0, len(rows) - _MOST_SHOWN),
            "may_apply": may_act(request),
        }
    return conversation_page(model_admin, request, conversation, "what_if", _("What if"), **context)
