"""A receiver that releases the names of a conversation that is deleted, in the transaction of the deletion."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import pre_delete

from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.models.conversation_names import kept_names, memory_name

__all__ = ["connect"]


def connect() -> None:
    """Connect the receiver."""
    pre_delete.connect(_release_names, Conversation, dispatch_uid="chatmemory.contrib.citus.names")


def _release_names(instance: Conversation, using: str, **_: Any) -> None:
    names = kept_names(using)
    if names is None:
        return
    # The object may have been read before another process renamed the conversation.
    rows = Conversation.objects.using(using).filter(pk=instance.pk)
    stored = rows.select_for_update().only("memory_id", "owner_id").first()
    if stored is None:
        return
    names.release(using, memory_name(stored, using), instance.pk)
    # Keys are deleted with their conversation by one statement, which sends no signals.
    IdempotencyKey.objects.using(using).filter(conversation=stored).release_names()
