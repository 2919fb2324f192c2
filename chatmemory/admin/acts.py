"""What staff do to a conversation: confirmed, and logged."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.access import may_act
from chatmemory.admin.pages import conversation_or_404, conversation_page
from chatmemory.admin.what_if import WindowForm
from chatmemory.models import WINDOWS, Conversation

__all__ = ["change_window", "clear_memories", "clear_memory"]


def change_window(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Ask for another window, say what would leave, and change it when that is confirmed."""
    conversation = conversation_or_404(model_admin, request, object_id, may=may_act(request))
    form = WindowForm.of(conversation, request.POST or request.GET)
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        if request.method == "POST":
            change = conversation.set_window(**form.cleaned_data)
            said = ngettext(
                "The window was changed to %(limit)s %(window)s; %(count)s message was evicted.",
                "The window was changed to %(limit)s %(window)s; %(count)s messages were evicted.",
                len(change.evicted),
            ) % {
                "limit": form.cleaned_data["limit"],
                "window": conversation.get_window_display(),
                "count": len(change.evicted),
            }
            return _done(model_admin, request, conversation, said)
        # What was asked about is what is confirmed, so the form is not there to be changed again.
        context["leaving"] = len(conversation.try_window(**form.cleaned_data).evicted)
        context["new_kind"] = dict(WINDOWS)[form.cleaned_data["window"]]
    return conversation_page(model_admin, request, conversation, "change_window", _("Change window"), **context)


def clear_memory(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Say what will leave, and clear the memory when that is confirmed."""
    conversation = conversation_or_404(model_admin, request, object_id, may=may_act(request))
    if request.method == "POST":
        count = conversation.retained_count
        conversation.memory.clear()
        said = ngettext(
            "The memory was cleared; %(count)s message was evicted.",
            "The memory was cleared; %(count)s messages were evicted.",
            count,
        ) % {"count": count}
        return _done(model_admin, request, conversation, said)
    return conversation_page(model_admin, request, conversation, "clear", _("Clear memory"))


@admin.action(description=gettext_lazy("Clear the memories of selected conversations"), permissions=["act"])
def clear_memories(model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]) -> HttpResponse | None:
    """The same for several at once."""
    if request.POST.get("confirmed"):
        for conversation in queryset:
            conversation.memory.clear()
            model_admin.log_change(request, conversation, _("The memory was cleared."))
        model_admin.message_user(request, _("The memories were cleared."), messages.SUCCESS)
        return None
    return TemplateResponse(
        request,
        "admin/chatmemory/conversation/clear_selected.html",
        {
            **model_admin.admin_site.each_context(request),
            "title": _("Clear memories"),
            "opts": model_admin.model._meta,
            "media": model_admin.media,
            "conversations": queryset,
            "count": sum(queryset.values_list("retained_count", flat=True)),
        },
    )


def _done(model_admin: Any, request: HttpRequest, conversation: Conversation, said: str) -> HttpResponse:
    model_admin.log_change(request, conversation, said)
    model_admin.message_user(request, said, messages.SUCCESS)
    site = model_admin.admin_site.name
    return HttpResponseRedirect(
        reverse("admin:chatmemory_conversation_change", args=[conversation.pk], current_app=site)
    )
