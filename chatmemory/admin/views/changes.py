"""Changes that staff make to a conversation: confirmed, and logged."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.display.bounded_rows import are_too_long
from chatmemory.admin.display.message import unreadable
from chatmemory.admin.display.window_words import pins_problem, window_words
from chatmemory.admin.views.base import conversation_or_404, conversation_page
from chatmemory.admin.views.logged_change import ChangedMeanwhileError, as_seen, back_to_timeline, logged, state_of
from chatmemory.admin.views.selection import MOST_LISTED, Selection
from chatmemory.admin.views.window_form import WindowForm
from chatmemory.conf import setting
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.window import WindowKind
from chatmemory.database import operations
from chatmemory.database.change import Change
from chatmemory.models import Conversation

__all__ = ["change_window", "clear_memories", "clear_memory"]


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
                say = partial(_say_window, before={name: getattr(conversation, name) for name in wanted}, wanted=wanted)
                act = partial(operations.set_window, as_seen(conversation, request.POST.get("seen")), **wanted)
                try:
                    change = logged(model_admin, request, conversation, act, say)
                except ChangedMeanwhileError:
                    conversation = conversation_or_404(model_admin, request, object_id, also="act")
                    context["has_changed"] = True
                else:
                    return back_to_timeline(model_admin, request, conversation, say(change))
            context["leaving"] = len(conversation.memory.try_window(**wanted).evicted)
            # A memory over its limit, after a change outside this app, evicts messages even so.
            context["is_same"] = form.is_window_of(conversation) and not context["leaving"]
            context["seen"] = "" if context["is_same"] else state_of(conversation)
            context["before"] = window_words(**{name: getattr(conversation, name) for name in wanted})
            context["after"] = window_words(**wanted)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
        except PinnedTooMuchError as error:
            form.add_error("limit", pins_problem(error))
        except (TypeError, ValueError) as error:  # a row that was written outside this app
            # The error may quote what a message says.
            with_text = model_admin.has_read_text_permission(request, conversation)
            positions = unreadable(conversation.messages.retained())
            context["problem"] = str(error) if with_text else ", ".join(map(str, positions[:MOST_LISTED]))
    return conversation_page(model_admin, request, conversation, "change_window", _("Change window"), **context)


def _say_window(change: Change, *, before: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return sentences about the change: the limit in any case, of the rest what is new."""
    if wanted["window"] == WindowKind.TOKENS:
        changed = ngettext(
            "The window was changed to at most %(limit)s token.",
            "The window was changed to at most %(limit)s tokens.",
            wanted["limit"],
        )
    else:
        changed = ngettext(
            "The window was changed to at most %(limit)s message.",
            "The window was changed to at most %(limit)s messages.",
            wanted["limit"],
        )
    said = [changed % {"limit": wanted["limit"]}]
    said += [
        _say_way(name, value)
        for name, value in wanted.items()
        if name not in ("window", "limit") and value != before[name]
    ]
    count = len(change.evicted)
    evicted = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", count)
    return " ".join([*said, evicted % {"count": count}])


def _say_way(name: str, value: Any) -> str:
    match name, value:
        case "low_water", percent:
            return _("It now evicts down to %(percent)s%% of the limit.") % {"percent": percent}
        case "whole_turns", True:
            return _("It now evicts whole turns.")
        case "whole_turns", _:
            return _("It now evicts message by message.")
        case "compact_at", None:
            return _("No summary is made by itself any more.")
        case "compact_at", percent:
            return _("A summary is now due at %(percent)s%% of the limit.") % {"percent": percent}
        case _, None:
            return _("It no longer clears old tool results.")
    return _("It now clears old tool results, but keeps the last %(count)s.") % {"count": value}


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
    return logged(model_admin, request, conversation, conversation.memory.clear, _say_cleared)


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
