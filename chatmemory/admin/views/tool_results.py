"""Clearing old tool results: what it would free is shown, and it is done once confirmed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.display.bounded_rows import are_too_long, read_bounded, without_text
from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.message import UNREADABLE, unreadable
from chatmemory.admin.display.timeline import MOST_SHOWN
from chatmemory.admin.display.timeline_entries import memory_entries
from chatmemory.admin.views.staff_pages import (
    ChangedMeanwhileError,
    as_seen,
    back_to_timeline,
    conversation_or_404,
    conversation_page,
    logged,
    record_read,
    state_of,
)
from chatmemory.conf import setting
from chatmemory.core.entries import RESULTS_KEPT, EvictionReason
from chatmemory.core.messages import ChatMessageType, ToolExecutionResultMessage
from chatmemory.database.change import Change
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = ["clear_tool_results"]


class ClearingForm(forms.Form):
    """The tool results that stay."""

    keep = forms.IntegerField(
        label=gettext_lazy("Keep the last"),
        min_value=0,
        max_value=MAX_LIMIT,
        initial=RESULTS_KEPT,
        help_text=gettext_lazy("The number of tool results that stay as they are, counted from the end of the memory."),
    )
    exclude_tools = forms.MultipleChoiceField(
        label=gettext_lazy("Keep all results of"), required=False, widget=forms.CheckboxSelectMultiple
    )

    @classmethod
    def of(cls, conversation: Conversation, data: Any, *, with_text: bool) -> ClearingForm:
        """Return the form for what was sent, by default for the last few results.

        Args:
            conversation: of which all retained messages can be read.
            data: what was sent.
            with_text: whether this reader may know the names of tools; without, they cannot choose among them.
        """
        form = cls(data if "keep" in data else {"keep": RESULTS_KEPT})
        names = _tools(conversation) if with_text else []
        if names:
            form.fields["exclude_tools"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        else:
            del form.fields["exclude_tools"]
        return form


def clear_tool_results(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show which tool results would be cleared and how many tokens that frees, and clear them once confirmed.

    If the memory has changed since that was shown, it is shown again.
    """
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    with_text = model_admin.has_read_text_permission(request, conversation)
    context: dict[str, Any] = {"keeps_history": setting("KEEP_HISTORY")}
    if are_too_long(conversation.messages.retained()):
        context["is_too_long"] = True
    else:
        try:
            data = request.POST if request.method == "POST" else request.GET
            context["form"] = form = ClearingForm.of(conversation, data, with_text=with_text)
            if form.is_valid():
                if request.method == "POST":
                    try:
                        change = conversation.memory.clear_tool_results(
                            **form.cleaned_data,
                            precondition=as_seen(request.POST.get("seen")),
                            also=logged(model_admin, request, conversation, _say),
                        )
                    except ChangedMeanwhileError:
                        conversation = conversation_or_404(model_admin, request, object_id, also="act")
                        context["has_changed"] = True
                    else:
                        said = _say(change) or _("There was nothing to clear.")
                        return back_to_timeline(model_admin, request, conversation, said)
                context |= _outcome(conversation, form.cleaned_data, with_text=with_text)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
        except UNREADABLE:
            # Which results are old depends on what the messages are.
            context["unreadable"] = unreadable(conversation.messages.retained())
            if not context["unreadable"]:
                raise
    if with_text and (context.get("entries") or "exclude_tools" in getattr(context.get("form"), "fields", ())):
        record_read(request, conversation)
    return conversation_page(
        model_admin, request, conversation, "clear_tool_results", _("Clear old tool results"), **context
    )


def _tools(conversation: Conversation) -> list[str]:
    """Return the names of the tools whose results are in the memory."""
    results = conversation.messages.retained().filter(type=ChatMessageType.TOOL_EXECUTION_RESULT.value).defer("native")
    found = (row.message for row in results)
    names = {result.tool_name for result in found if isinstance(result, ToolExecutionResultMessage)}
    return sorted(name for name in names if name)


def _outcome(conversation: Conversation, wanted: dict[str, Any], *, with_text: bool) -> dict[str, Any]:
    tokens, freed = conversation.memory.try_clearing(**wanted)
    leaving = conversation.messages.filter(position__in=list(tokens)[:MOST_SHOWN]).order_by("position")
    rows = read_bounded(leaving) if with_text else list(without_text(leaving))
    for row in rows:
        row.eviction_reason = EvictionReason.TOOL_CLEARED.value
    return {
        "leaving": len(tokens),
        "freed": freed,
        "entries": memory_entries(rows, MemoryMap.of(()), with_text=with_text),
        "left_out": len(tokens) - len(rows),
        "seen": state_of(conversation) if tokens else "",
    }


def _say(change: Change) -> str:
    """Return sentences about the change; empty if nothing changed."""
    count = len(change.evicted)
    if not count:
        return ""
    freed = sum(row.token_count for row in change.evicted) - sum(row.token_count for row in change.added)
    cleared = ngettext("%(count)s old tool result was cleared.", "%(count)s old tool results were cleared.", count)
    tokens = ngettext("That freed %(tokens)s token.", "That freed %(tokens)s tokens.", freed)
    return f"{cleared % {'count': grouped(count)}} {tokens % {'tokens': grouped(freed)}}"
