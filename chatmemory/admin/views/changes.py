"""Clear memories: of one conversation, or of those that a list has selected. Confirmed, and logged."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.views.selection import Selection
from chatmemory.admin.views.staff_pages import back_to_timeline, conversation_or_404, conversation_page, logged
from chatmemory.conf import setting
from chatmemory.database.change import Change
from chatmemory.models import Conversation

__all__ = ["clear_memories", "clear_memory"]


def clear_memory(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show how many messages will be evicted, and clear the memory once confirmed."""
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    if request.method == "POST":
        try:
            change = _clear(model_admin, request, conversation)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
        said = _say_cleared(change) or _("The memory was already empty.")
        return back_to_timeline(model_admin, request, conversation, said)
    keeps_history = setting("KEEP_HISTORY")
    return conversation_page(
        model_admin, request, conversation, "clear", _("Clear memory"), keeps_history=keeps_history
    )


def _clear(model_admin: Any, request: HttpRequest, conversation: Conversation) -> Change:
    return conversation.memory.clear(also=logged(model_admin, request, conversation, _say_cleared))


def _say_cleared(change: Change) -> str:
    """Return a sentence about the change; empty if the memory was empty."""
    count = len(change.evicted)
    if not count:
        return ""
    said = ngettext(
        "The memory was cleared; %(count)s message was evicted.",
        "The memory was cleared; %(count)s messages were evicted.",
        count,
    )
    return said % {"count": count}


@admin.action(description=gettext_lazy("Clear the memories of selected conversations"), permissions=["act"])
def clear_memories(model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]) -> HttpResponse | None:
    """Clear the memories of several conversations, each in a transaction of its own. Empty ones are skipped."""
    selection = Selection(model_admin, request, queryset.filter(retained_count__gt=0), ("view", "act"))
    if not request.POST.get("confirmed"):
        if selection.look():
            leaving = selection.queryset.order_by().aggregate(total=Sum("retained_count"))["total"]
            context = {"leaving": leaving, "keeps_history": setting("KEEP_HISTORY")}
            return selection.ask("clear_selected", _("Clear memories"), **context)
        if not selection.refused:
            model_admin.message_user(request, _("There is nothing to clear: the memories are empty."), messages.WARNING)
        selection.report()
        return None
    cleared = evicted = 0
    for part in selection.parts():
        for conversation in part:
            try:
                count = len(_clear(model_admin, request, conversation).evicted)
            except Conversation.DoesNotExist:
                selection.gone += 1
            else:
                cleared += count > 0
                evicted += count
    if cleared:
        said = ngettext(
            "The memory of %(count)s conversation was cleared.",
            "The memories of %(count)s conversations were cleared.",
            cleared,
        )
        left = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", evicted)
        model_admin.message_user(request, f"{said % {'count': cleared}} {left % {'count': evicted}}", messages.SUCCESS)
    selection.report()
    return None
