"""Pages about one conversation, in addition to the admin's own."""

from __future__ import annotations

from typing import Any, Literal

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from chatmemory.models import Conversation

__all__ = ["conversation_or_404", "conversation_page"]


def conversation_or_404(
    model_admin: Any, request: HttpRequest, object_id: str, *, also: Literal["act", "read_text"] | None = None
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
