"""Middleware that uses the database when the view has returned its response."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from chatmemory.models import Conversation

__all__ = ["asks_after_the_view"]


def asks_after_the_view(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        Conversation.objects.exists()
        return response

    return middleware
