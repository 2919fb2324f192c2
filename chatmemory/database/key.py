"""The key by which statements name a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.models import Conversation

__all__ = ["Key"]


@dataclass(frozen=True)
class Key:
    """What names one conversation."""

    database: str
    """The alias."""

    column: str
    """``"id"``, or ``"memory_id"`` for what is unique per owner."""

    values: tuple[Any, ...]
    """As the database takes them."""

    @classmethod
    def of(cls, conversation: Conversation, database: str) -> Key:
        """By its primary key."""
        return cls(database, "id", (prepared_id(conversation, connections[database]),))

    @classmethod
    def named(cls, owner: Any, memory_id: str, database: str) -> Key:
        """By the memory ID that ``owner``, or with None nobody, has it under."""
        if owner is None:
            return cls(database, "memory_id", (memory_id, ""))
        prepared = owner._meta.pk.get_db_prep_value(owner.pk, connections[database], prepared=False)
        return cls(database, "memory_id", (memory_id, prepared))


def prepared_id(conversation: Conversation, connection: BaseDatabaseWrapper) -> Any:
    return Conversation._meta.pk.get_db_prep_value(conversation.pk, connection, prepared=False)


def connection_of(conversation: Conversation) -> tuple[BaseDatabaseWrapper, str]:
    database = conversation._state.db or "default"
    return connections[database], database
