"""Pages for the parts of the chat, under a strict content security policy: make it the ``ROOT_URLCONF``."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template import engines
from django.urls import include, path

from chatmemory.models import Conversation
from tests.support.csp import POLICY

__all__ = ["urlpatterns"]

_PAGE = """{% load static chatmemory %}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/page.css">
<link rel="stylesheet" href="{% static 'chatmemory/chat/markdown.css' %}"></head>
<body><main><h1>Page</h1>BODY</main></body></html>"""

_ANSWER = '<div id="answer" class="chatmemory-markdown"></div>'
_LIST = '{% chatmemory_conversations url_name="chat" %}'
_PANEL = "{% chatmemory_chat conversation memory=True %}"


def _page(body: str, whole: str = _PAGE) -> Any:
    template = whole.replace("BODY", body)

    def view(request: HttpRequest, pk: UUID | None = None) -> HttpResponse:
        shown: dict[str, Any] = {} if pk is None else {"conversation": get_object_or_404(Conversation, pk=pk)}
        if request.user.is_authenticated:
            # Two primary keys of one millisecond stand in any order.
            shown["conversations"] = Conversation.objects.owned_by(request.user).order_by("title")
        page = HttpResponse(engines["django"].from_string(template).render(shown, request))
        page["Content-Security-Policy"] = f"{POLICY}; require-trusted-types-for 'script'; trusted-types 'none'"
        return page

    return view


def _styles(request: HttpRequest) -> HttpResponse:
    """Style the page: axe takes one for white that names no background."""
    return HttpResponse("html { background: Canvas; color: CanvasText; }", content_type="text/css")


urlpatterns = [
    path("page.css", _styles),
    path("api/", include("chatmemory.urls")),
    path("markdown/", _page(_ANSWER)),
    path("markdown/no-doctype/", _page(_ANSWER, _PAGE.replace("<!doctype html>", ""))),
    path("list/", _page(_LIST)),
    path("chat/<uuid:pk>/", _page(_LIST), name="chat"),
    path("panel/<uuid:pk>/", _page(_PANEL)),
    path("plain/<uuid:pk>/", _page("{% chatmemory_chat conversation %}")),
    path("panels/", _page("{% for one in conversations %}{% chatmemory_chat one memory=True %}{% endfor %}")),
    path("both/<uuid:pk>/", _page(_LIST + "{% chatmemory_chat conversation %}")),
    path("side/<uuid:pk>/", _page(f'<div class="chatmemory-side-by-side">{_LIST}{_PANEL}</div>')),
    path("talk/<uuid:pk>/", _page("{% chatmemory_conversations %}")),
]
