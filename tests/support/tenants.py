"""A project's rules of which conversations staff reach."""

from __future__ import annotations

from typing import Any

from chatmemory.models import Conversation

__all__ = ["acme", "berts", "listed", "not_callable", "originals", "repeated", "sliced"]


def acme(user: Any) -> Any:
    """Those of users whose names begin with "acme"."""
    return Conversation.objects.filter(owner__username__startswith="acme")


def berts(user: Any) -> Any:
    return Conversation.objects.filter(owner__username="bert")


def repeated(user: Any) -> Any:
    """The same, by a join that repeats a conversation for each of its messages."""
    return acme(user).filter(messages__position__gte=0).order_by("messages__position")


def originals(user: Any) -> Any:
    """Those that somebody assigned to staff, which no copy is."""
    return Conversation.objects.filter(forked_from=None)


def listed(user: Any) -> Any:
    return list(acme(user))


def sliced(user: Any) -> Any:
    return acme(user)[:5]


not_callable = 5
