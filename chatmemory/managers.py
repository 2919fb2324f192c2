"""Querysets of conversations and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    from chatmemory.models import Conversation, Message  # noqa: F401

__all__ = ["ConversationQuerySet", "MessageQuerySet", "require_owner"]


def require_owner(owner: Any) -> Any:
    """``owner``, a saved user or None for nobody.

    Raises:
        ValueError: an anonymous or unsaved user, which would silently share the conversations of nobody.
    """
    if owner is not None and (getattr(owner, "pk", None) is None or owner._state.adding):
        raise ValueError(f"owner must be a saved user, or None for nobody, but is: {owner!r}")
    return owner


class ConversationQuerySet(models.QuerySet["Conversation"]):
    """Conversations."""

    def owned_by(self, owner: Any) -> ConversationQuerySet:
        """Those of one user, or with None those of nobody.

        Raises:
            ValueError: ``owner`` is an anonymous or unsaved user.
        """
        return self.filter(owner=owner) if require_owner(owner) is not None else self.filter(owner__isnull=True)


class MessageQuerySet(models.QuerySet["Message"]):
    """Messages. Those of one conversation are ``conversation.messages``."""

    def retained(self) -> MessageQuerySet:
        """What the model gets now, in memory order."""
        # evicted_in is null in all of these; ordering by it lets PostgreSQL read the index in order.
        return self.filter(evicted_in__isnull=True).order_by("evicted_in", "memory_order")

    def evicted(self) -> MessageQuerySet:
        """What was in the memory and left it, in the order said."""
        return self.filter(evicted_in__isnull=False).order_by("position")

    def history(self) -> MessageQuerySet:
        """Everything that was said, retained or evicted, in the order said."""
        return self.filter(synthetic=False).order_by("position")

    def in_memory_at(self, version: int) -> MessageQuerySet:
        """What the model got at a version of the memory, in memory order."""
        still_there = models.Q(evicted_in__isnull=True) | models.Q(evicted_in__gt=version)
        return self.filter(still_there, added_in__lte=version).order_by("memory_order")
