"""Pages about one conversation, in addition to the admin's own, and the record of who read what.

Pages and files are read by GET, so a GET writes to the log here, although a GET should not write. A HEAD writes only
what it searched for: its answer has no words, but the length of the answer tells what was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import translation
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatmemory import staff
from chatmemory.models import Conversation

__all__ = ["conversation_or_404", "conversation_page", "record_list", "record_read"]

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
    """Return the page ``admin/chatmemory/conversation/<name>.html``."""
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(
        request,
        f"admin/chatmemory/conversation/{name}.html",
        {
            **model_admin.admin_site.each_context(request),
            "title": title,
            "subtitle": str(conversation),
            "opts": model_admin.model._meta,
            "media": model_admin.media,
            "original": conversation,
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
