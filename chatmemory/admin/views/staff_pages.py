"""Pages about one conversation, in addition to the admin's own, and the record of who read what.

Pages and files are read by GET, so a GET writes to the log here, although a GET should not write. A HEAD writes only
what it searched for: its answer has no words, but the length of the answer tells what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import translation
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatmemory import staff
from chatmemory.database.change import Change
from chatmemory.models import WINDOW_SETTINGS, Conversation

_READ = _("Read what its messages say.")


def conversation_or_404(
    model_admin: Any,
    request: HttpRequest,
    object_id: str,
    *,
    also: Literal["act", "compact", "read_text"] | None = None,
) -> Conversation:
    """Return the conversation, if this member of staff may see it and has the permission ``also``.

    Raises:
        Http404: there is none.
        PermissionDenied: they may not.
    """
    conversation: Conversation | None = model_admin.get_object(request, object_id)
    for name in ("view", also) if also else ("view",):
        if not getattr(model_admin, f"has_{name}_permission")(request, conversation):
            raise PermissionDenied
    if conversation is None:
        raise Http404
    return conversation


def conversation_page(
    model_admin: Any, request: HttpRequest, conversation: Conversation, name: str, title: Any, **context: Any
) -> HttpResponse:
    """Return the page ``admin/chatmemory/conversation/<name>.html`` about a conversation."""
    about = {"subtitle": str(conversation), "original": conversation}
    return admin_page(model_admin, request, name, title, **about, **context)


def admin_page(model_admin: Any, request: HttpRequest, name: str, title: Any, **context: Any) -> HttpResponse:
    """Return the page ``admin/chatmemory/conversation/<name>.html``."""
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(
        request,
        f"admin/chatmemory/conversation/{name}.html",
        {
            **model_admin.admin_site.each_context(request),
            "title": title,
            "opts": model_admin.model._meta,
            "media": model_admin.media,
            **context,
        },
    )


def record_read(request: HttpRequest, *conversations: Conversation, what: Any = _READ) -> None:
    """Record that the answer to this request has words of these conversations."""
    if request.method != "HEAD":
        _record(request, what, conversations)


def record_list(request: HttpRequest) -> None:
    """Record that this request lists or searches the words of all conversations that its query finds."""
    # A POST without an action answers with the list, too.
    _record(request, format_lazy("{} ?{}", _("Listed or searched what messages say:"), request.GET.urlencode()))


def _record(request: HttpRequest, what: Any, conversations: Iterable[Conversation] | None = None) -> None:
    # All staff read the log, so it is not written in the language of the one who reads.
    with translation.override(settings.LANGUAGE_CODE):
        staff.record(request.user, str(what), conversations)


class ChangedMeanwhileError(Exception):
    """The conversation has changed since the confirmation was shown."""


def state_of(conversation: Conversation) -> str:
    """Return the state on which the outcome of a change depends. A change of the window alone makes no new version."""
    window = (getattr(conversation, name) for name in WINDOW_SETTINGS)
    return " ".join(map(str, (conversation.version, conversation.retained_tokens, *window)))


def as_seen(request: HttpRequest) -> Callable[[Conversation], None]:
    """Return the precondition of a change, that the conversation still is as the page had it that was sent.

    Raises:
        ChangedMeanwhileError: raised by the change, if it is not.
    """

    def require(conversation: Conversation) -> None:
        if request.POST.get("seen") != state_of(conversation):
            raise ChangedMeanwhileError

    return require


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


def act(
    model_admin: Any,
    request: HttpRequest,
    conversation: Conversation,
    change: Callable[..., Change],
    say: Callable[[Change], str],
    *,
    otherwise: str = "",
    **place: Any,
) -> HttpResponse:
    """Make a change, log it, and return to the conversation with a message about it.

    Args:
        model_admin: the admin of conversations.
        request: the request for the change.
        conversation: the conversation.
        change: makes the change, and takes ``also`` as the methods of a memory do.
        say: returns a sentence about the change; an empty one if nothing changed.
        otherwise: the sentence if nothing changed, which is not logged.
        place: where to return to, as ``back_to_timeline`` takes it.
    """
    done = change(also=logged(model_admin, request, conversation, say))
    return back_to_timeline(model_admin, request, conversation, say(done) or otherwise, **place)


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
    """Redirect to the conversation, and show the message ``said`` there.

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
