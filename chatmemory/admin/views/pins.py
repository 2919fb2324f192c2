"""Pinning and unpinning a message where it is read: in the memory, or among everything said."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatmemory.admin.display.bounded_rows import are_too_long
from chatmemory.admin.display.message import unreadable
from chatmemory.admin.display.window_words import pins_problem
from chatmemory.admin.views.staff_pages import back_to_timeline, conversation_or_404, logged
from chatmemory.core.arguments import whole_number
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.database.change import Change
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = ["change_pin"]


def change_pin(model_admin: Any, request: HttpRequest, object_id: str, *, act: Literal["pin", "unpin"]) -> HttpResponse:
    """Pin or unpin the message at ``position``, and return to it in the view that the form was in."""
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    position = whole_number(request.POST.get("position", ""), most=MAX_LIMIT)
    if position is None:
        raise Http404
    to_history = request.POST.get("view") != "memory"
    back = partial(back_to_timeline, model_admin, request, conversation, position=position, to_history=to_history)
    problem = _obstacle(conversation, position)
    if problem:
        return back(problem, level=messages.ERROR)
    log = logged(model_admin, request, conversation, partial(_say, act=act, position=position))
    change = conversation.memory.pin if act == "pin" else conversation.memory.unpin
    try:
        done = change(position, also=log)
    except Conversation.DoesNotExist as error:
        raise Http404 from error
    except PinnedTooMuchError as error:
        return back(pins_problem(error), level=messages.ERROR)
    except (TypeError, ValueError):  # the message has just left, or another row was written outside this app
        return back(_obstacle(conversation, position) or _unreadable(conversation), level=messages.ERROR)
    return back(_say(done, act=act, position=position) or _say_nothing(act, position))


def _obstacle(conversation: Conversation, position: int) -> str:
    """Return the reason why a message of the conversation can be neither pinned nor unpinned; empty if it can."""
    if not conversation.messages.retained().filter(position=position).exists():
        return _("Message %(position)s is not in the memory: it can be neither pinned nor unpinned.") % {
            "position": position
        }
    if are_too_long(conversation.messages.retained()):
        return _("This memory is too long to pin messages here. Use pin() and unpin() in your code.")
    return ""


def _unreadable(conversation: Conversation) -> str:
    positions = ", ".join(map(str, unreadable(conversation.messages.retained())))
    return _("Nothing was changed, because messages cannot be read: %(positions)s") % {"positions": positions}


def _say(change: Change, *, act: Literal["pin", "unpin"], position: int) -> str:
    """Return a sentence about the change; empty if nothing changed."""
    if change.moment is None:
        return ""
    said = _("Pinned message %(position)s.") if act == "pin" else _("Unpinned message %(position)s.")
    count = len(change.gone)
    evicted = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", count) % {"count": count}
    return " ".join([said % {"position": position}, *([evicted] if count else [])])


def _say_nothing(act: Literal["pin", "unpin"], position: int) -> str:
    said = _("Message %(position)s is pinned already.") if act == "pin" else _("Message %(position)s is not pinned.")
    return said % {"position": position}
