"""The chat page. For everything that happens in it, it uses the template tag and the REST API of the app."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from chatmemory.models import Conversation
from demo_project.chat.conversations import latest_chat, start_chat
from demo_project.chat.recall import is_recall_on, switch_recall
from demo_project.chat.security import strict
from demo_project.chat.speakers import chosen_speaker
from demo_project.demo_user import USERNAME

__all__ = ["chat", "new_chat", "recall", "sign_in"]

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
    """Return the page; without an ID, lead to the latest chat, or to a first one."""
    if conversation_id is None:
        return redirect("chat-of", latest_chat(request.user).pk)
    conversation = Conversation.objects.owned_by(request.user).filter(pk=conversation_id).first()
    if conversation is None:
        return render(request, "demo/missing.html", status=404)
    context = {
        "conversation": conversation,
        "model": chosen_speaker().name,
        "docs": _docs(),
        "has_recall": is_recall_on(request),
    }
    return render(request, "demo/chat.html", context)


@require_POST
@login_required(login_url="sign-in")
def recall(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Switch recall on or off, and return to the chat."""
    switch_recall(request)
    return redirect("chat-of", conversation_id)


@require_POST
def new_chat(request: HttpRequest) -> JsonResponse:
    """Start a chat, and return its ID as JSON."""
    if not request.user.is_authenticated:
        return JsonResponse({"detail": _("You are signed out.")}, status=403)
    return JsonResponse({"id": str(start_chat(request.user).pk)}, status=201)


def _docs() -> Any:
    try:
        return reverse("chatmemory:docs")
    except NoReverseMatch:  # without drf-spectacular
        return ""
