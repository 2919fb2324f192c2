"""Give a conversation another window, and say what that changed."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatmemory.admin.display.window_presets import present_settings
from chatmemory.admin.views.logged_change import as_seen, back_to_timeline, logged
from chatmemory.core.window import WindowKind
from chatmemory.database import operations
from chatmemory.database.change import Change
from chatmemory.models import Conversation

__all__ = ["apply_window"]


def apply_window(
    model_admin: Any, request: HttpRequest, conversation: Conversation, wanted: dict[str, Any]
) -> HttpResponse:
    """Change the window, log it, and return to the conversation.

    Raises:
        ChangedMeanwhileError: the conversation is not as the page had it that was sent.
        Conversation.DoesNotExist: the conversation has been erased.
        PinnedTooMuchError: pinned messages would take more than half of the limit.
        TypeError, ValueError: a message cannot be read.
    """
    say = partial(_say_window, before=present_settings(conversation), wanted=wanted)
    act = partial(operations.set_window, as_seen(conversation, request.POST.get("seen")), **wanted)
    change = logged(model_admin, request, conversation, act, say)
    return back_to_timeline(model_admin, request, conversation, say(change))


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
