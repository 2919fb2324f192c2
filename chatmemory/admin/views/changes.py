"""Changes that staff make to a conversation: confirmed, and logged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db import router, transaction
from django.db.models import QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.display.bounded_rows import are_too_long
from chatmemory.admin.display.message import unreadable
from chatmemory.admin.views.base import conversation_or_404, conversation_page
from chatmemory.admin.views.selection import MOST_LISTED, Selection
from chatmemory.admin.views.what_if import WindowForm
from chatmemory.conf import setting
from chatmemory.core.window import WindowKind
from chatmemory.database import operations
from chatmemory.database.change import Change
from chatmemory.database.retry import retry
from chatmemory.database.target import Target
from chatmemory.models import Conversation

__all__ = ["change_window", "clear_memories", "clear_memory"]


class _ChangedMeanwhileError(Exception):
    """The conversation has changed since the confirmation was shown."""


def change_window(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Ask for another window, show how many messages it evicts, and change it once confirmed.

    If the memory has changed since the question was shown, it is asked again.
    """
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    form = WindowForm.of(conversation, request.POST if request.method == "POST" else request.GET)
    context: dict[str, Any] = {"form": form, "keeps_history": setting("KEEP_HISTORY")}
    if form.is_valid() and are_too_long(conversation.messages.retained()):
        context["is_too_long"] = True
    elif form.is_valid():
        wanted = form.cleaned_data
        try:
            if request.method == "POST":
                target = Target.of(conversation, partial(_require_unchanged, request.POST.get("seen")))
                act = partial(operations.set_window, target, **wanted)
                try:
                    change = _logged(model_admin, request, conversation, act, partial(_say_window, **wanted))
                except _ChangedMeanwhileError:
                    conversation = conversation_or_404(model_admin, request, object_id, also="act")
                    context["has_changed"] = True
                else:
                    return _done(model_admin, request, conversation, _say_window(change, **wanted))
            context["leaving"] = len(conversation.memory.try_window(**wanted).evicted)
            has_it = wanted == {"window": conversation.window, "limit": conversation.limit}
            # A memory over its limit, after a change outside this app, evicts messages even so.
            context["is_same"] = has_it and not context["leaving"]
            context["seen"] = "" if context["is_same"] else _state(conversation)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
        except (TypeError, ValueError) as error:  # a row that was written outside this app
            # The error may quote what a message says.
            with_text = model_admin.has_read_text_permission(request, conversation)
            positions = unreadable(conversation.messages.retained())
            context["problem"] = str(error) if with_text else ", ".join(map(str, positions[:MOST_LISTED]))
    return conversation_page(model_admin, request, conversation, "change_window", _("Change window"), **context)


def _state(conversation: Conversation) -> str:
    """Return what the outcome of another window depends on. A change of the model alone makes no new version."""
    return f"{conversation.version} {conversation.window} {conversation.limit} {conversation.retained_tokens}"


def _require_unchanged(seen: str | None, conversation: Conversation) -> None:
    if seen != _state(conversation):
        raise _ChangedMeanwhileError


def _say_window(change: Change, *, window: str, limit: int) -> str:
    if window == WindowKind.TOKENS:
        changed = ngettext(
            "The window was changed to at most %(limit)s token.",
            "The window was changed to at most %(limit)s tokens.",
            limit,
        )
    else:
        changed = ngettext(
            "The window was changed to at most %(limit)s message.",
            "The window was changed to at most %(limit)s messages.",
            limit,
        )
    count = len(change.evicted)
    evicted = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", count)
    return f"{changed % {'limit': limit}} {evicted % {'count': count}}"


def clear_memory(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show how many messages will be evicted, and clear the memory once confirmed."""
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    if request.method == "POST":
        try:
            change = _clear(model_admin, request, conversation)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
        said = _say_cleared(change) or _("The memory was already empty.")
        return _done(model_admin, request, conversation, said)
    keeps_history = setting("KEEP_HISTORY")
    return conversation_page(
        model_admin, request, conversation, "clear", _("Clear memory"), keeps_history=keeps_history
    )


def _clear(model_admin: Any, request: HttpRequest, conversation: Conversation) -> Change:
    return _logged(model_admin, request, conversation, conversation.memory.clear, _say_cleared)


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


def _logged(
    model_admin: Any,
    request: HttpRequest,
    conversation: Conversation,
    act: Callable[[], Change],
    say: Callable[[Change], str],
) -> Change:
    """Change a conversation and log the sentence of ``say``, if it is not empty: both, or neither."""
    database = router.db_for_write(Conversation, instance=conversation)

    def transact() -> Change:
        with transaction.atomic(using=database):
            change = act()
            # All staff read the log, so it is not written in the language of the one who acts.
            with translation.override(settings.LANGUAGE_CODE):
                if said := say(change):
                    model_admin.log_change(request, conversation, said)
            return change

    return retry(database, transact)


def _done(model_admin: Any, request: HttpRequest, conversation: Conversation, said: str) -> HttpResponse:
    model_admin.message_user(request, said, messages.SUCCESS)
    site = model_admin.admin_site.name
    return HttpResponseRedirect(
        reverse("admin:chatmemory_conversation_change", args=[conversation.pk], current_app=site)
    )
