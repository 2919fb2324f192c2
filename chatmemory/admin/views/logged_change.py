"""Changes of a conversation, each written together with its entry in the admin's log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import translation

from chatmemory.database.change import Change
from chatmemory.models import WINDOW_SETTINGS, Conversation

__all__ = ["ChangedMeanwhileError", "as_seen", "back_to_timeline", "logged", "state_of"]


class ChangedMeanwhileError(Exception):
    """The conversation has changed since the confirmation was shown."""


def state_of(conversation: Conversation) -> str:
    """Return the state on which the outcome of a change depends. A change of the window alone makes no new version."""
    window = (getattr(conversation, name) for name in WINDOW_SETTINGS)
    return " ".join(map(str, (conversation.version, conversation.retained_tokens, *window)))


def as_seen(seen: str | None) -> Callable[[Conversation], None]:
    """Return the precondition of a change, that the conversation still is as it was ``seen``.

    Raises:
        ChangedMeanwhileError: raised by the change, if it is not.
    """
    return partial(_require_unchanged, seen)


def _require_unchanged(seen: str | None, conversation: Conversation) -> None:
    if seen != state_of(conversation):
        raise ChangedMeanwhileError


def logged(
    model_admin: Any, request: HttpRequest, conversation: Conversation, say: Callable[[Change], str]
) -> Callable[[Change], None]:
    """Return what logs the sentence of ``say`` about a change in its transaction, if the sentence is not empty."""

    def log(change: Change) -> None:
        # All staff read the log, so it is not written in the language of the one who acts.
        with translation.override(settings.LANGUAGE_CODE):
            if said := say(change):
                model_admin.log_change(request, conversation, said)

    return log


def back_to_timeline(
    model_admin: Any,
    request: HttpRequest,
    conversation: Conversation,
    said: str,
    *,
    level: int = messages.SUCCESS,
    position: int | None = None,
    to_history: bool = True,
) -> HttpResponse:
    """Return to the conversation, and show there what was ``said``.

    Args:
        model_admin: the admin of conversations.
        request: the request that was answered by a change, or by none.
        conversation: the conversation.
        said: a sentence about the change.
        level: of the message that says it.
        position: of the message to return to; by default the page is shown from its top.
        to_history: whether that message is wanted among everything said, and not in the memory.
    """
    model_admin.message_user(request, said, level)
    site = model_admin.admin_site.name
    address = reverse("admin:chatmemory_conversation_change", args=[conversation.pk], current_app=site)
    page = f"?position={position}" if to_history else ""
    place = "" if position is None else f"{page}#message-{position}"
    return HttpResponseRedirect(f"{address}{place}")
