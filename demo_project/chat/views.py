"""The chat page, and the view that makes the model answer. For everything else the page uses the REST API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from chatmemory.models import Conversation
from demo_project.chat.reply import reply_events, stop
from demo_project.chat.security import strict
from demo_project.chat.speakers import chosen_speaker
from demo_project.demo_user import USERNAME

__all__ = ["chat", "reply", "sign_in"]

sign_in = strict(
    LoginView.as_view(
        template_name="demo/sign_in.html",
        next_page="chat",
        redirect_authenticated_user=True,
        extra_context={"username": USERNAME},
    )
)


@strict
@require_safe
@never_cache
@login_required(login_url="sign-in")
def chat(request: HttpRequest, conversation_id: UUID | None = None) -> HttpResponse:
    """Return the page. Without an ID its script chooses the conversation."""
    if conversation_id is not None and _conversation(request, conversation_id) is None:
        return render(request, "demo/missing.html", status=404)
    context = {"conversation_id": conversation_id or "", "model": chosen_speaker().name, "docs": _docs()}
    return render(request, "demo/chat.html", context)


@require_http_methods(["POST", "DELETE"])
def reply(request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
    """Make the model answer, and stream its events as lines of JSON; or, on DELETE, make it stop."""
    if not request.user.is_authenticated:
        return JsonResponse({"detail": "You are signed out."}, status=403)
    conversation = _conversation(request, conversation_id)
    if conversation is None:
        return JsonResponse({"detail": "You have no such conversation."}, status=404)
    if request.method == "DELETE":
        stop(conversation)
        return HttpResponse(status=204)
    lines = _lines(reply_events(conversation, chosen_speaker()))
    return StreamingHttpResponse(lines, content_type="application/x-ndjson", headers={"Cache-Control": "no-store"})


def _conversation(request: HttpRequest, conversation_id: UUID) -> Conversation | None:
    return Conversation.objects.owned_by(request.user).filter(pk=conversation_id).first()


def _lines(events: Iterator[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        yield json.dumps(event, cls=DjangoJSONEncoder) + "\n"


def _docs() -> str:
    try:
        return reverse("chatmemory:docs")
    except NoReverseMatch:  # without drf-spectacular
        return ""
