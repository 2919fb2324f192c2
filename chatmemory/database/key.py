"""The key by which statements name a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.models import Conversation

__all__ = ["Key", "connection_of", "prepared_id"]


@dataclass(frozen=True)
class Key:
    """The column and values that name one conversation."""

    database: str
    """The alias of the database."""

    column: str
    """``"id"``, or ``"memory_id"``, which is unique per owner."""

    values: tuple[Any, ...]
    """The values, prepared for the database."""

    @classmethod
    def of(cls, conversation: Conversation, database: str) -> Key:
        """Return the primary key of a conversation."""
        return cls(database, "id", (prepared_id(conversation, connections[database]),))

    @classmethod
    def named(cls, owner: Any, memory_id: str, database: str) -> Key:
        """Return the key of the conversation that ``owner`` (None: no owner) has under ``memory_id``."""
        if owner is None:
            return cls(database, "memory_id", (memory_id, ""))
        prepared = owner._meta.pk.get_db_prep_value(owner.pk, connections[database], prepared=False)
        return cls(database, "memory_id", (memory_id, prepared))


def prepared_id(conversation: Conversation, connection: BaseDatabaseWrapper) -> Any:
    """Return the primary key as the database takes it."""
    return Conversation._meta.pk.get_db_prep_value(conversation.pk, connection, prepared=False)


def connection_of(conversation: Conversation) -> tuple[BaseDatabaseWrapper, str]:
    """Return the connection that ``conversation`` was read from, and its alias."""
    database = conversation._state.db or "default"
    return connections[database], database
