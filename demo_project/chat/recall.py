"""The switch of the page: whether the model may look for what it no longer has in its memory."""

from __future__ import annotations

from django.http import HttpRequest

__all__ = ["is_recall_on", "switch_recall"]

_KEY = "recall"


def is_recall_on(request: HttpRequest) -> bool:
    """Return whether the user has switched it on. It is off at first, so that forgetting is seen."""
    session = getattr(request, "session", None)  # a request with a token has none
    return session is not None and bool(session.get(_KEY))


def switch_recall(request: HttpRequest) -> None:
    """Switch it on or off, until the user signs out."""
    request.session[_KEY] = not is_recall_on(request)
