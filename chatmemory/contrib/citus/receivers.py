"""Receivers that release the names of what is deleted, in the transaction of the deletion."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_delete, pre_delete

from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.models.names import kept_names, key_name, memory_name

__all__ = ["connect"]


def connect() -> None:
    """Connect the receivers."""
    pre_delete.connect(_release_name, Conversation, dispatch_uid="chatmemory.contrib.citus.name")
    post_delete.connect(_release_key, IdempotencyKey, dispatch_uid="chatmemory.contrib.citus.key")


def _release_name(instance: Conversation, using: str, **_: Any) -> None:
    names = kept_names(using)
    if names is None:
        return
    # The object may have been read before another process renamed the conversation.
    rows = Conversation.objects.using(using).filter(pk=instance.pk)
    stored = rows.select_for_update().only("memory_id", "owner_id").first()
    if stored is not None:
        names.release(using, memory_name(stored, using), instance.pk)


def _release_key(instance: IdempotencyKey, using: str, **_: Any) -> None:
    # Other keys are unique within their conversation.
    if (names := kept_names(using)) is not None and instance.scope.startswith("owner "):
        names.release(using, key_name(instance.scope, instance.key), instance.conversation_id)
