"""Give a conversation another window, and say what that changed."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatmemory.admin.display.window_presets import present_settings
from chatmemory.admin.display.window_words import BOUND, SHOWN, setting_words
from chatmemory.admin.views.logged_change import as_seen, back_to_timeline, logged
from chatmemory.core.window import WindowKind
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
    log = logged(model_admin, request, conversation, say)
    change = conversation.memory.set_window(precondition=as_seen(request.POST.get("seen")), also=log, **wanted)
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
    new = [setting_words(name, wanted[name]) for name in SHOWN if name not in BOUND and wanted[name] != before[name]]
    if new:
        said.append(_("Now: %(words)s.") % {"words": _(", ").join(new)})
    count = len(change.evicted)
    evicted = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", count)
    return " ".join([*said, evicted % {"count": count}])
