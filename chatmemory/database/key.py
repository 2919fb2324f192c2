"""The key by which statements name a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.models import Conversation
from chatmemory.models.conversation_names import NOBODY, kept_names, located


@dataclass(frozen=True)
class Key:
    """The column and values that name one conversation."""

    database: str
    """The alias of the database."""

    column: str
    """``"id"``; or ``"memory_id"``, which is unique per owner; or ``"located"``: all of them, where names are kept."""

    values: tuple[Any, ...]
    """The values, prepared for the database."""

    @classmethod
    def of(cls, conversation: Conversation, database: str) -> Key:
        """Return the primary key of a conversation."""
        return cls(database, "id", (prepared_id(conversation, connections[database]),))

    @classmethod
    def named(cls, owner: Any, memory_id: str, database: str) -> Key:
        """Return the key of the conversation that ``owner`` (None: no owner) has under ``memory_id``."""
        prepared = ""
        if owner is not None:
            prepared = owner._meta.pk.get_db_prep_value(owner.pk, connections[database], prepared=False)
        found = located(owner, memory_id, database)
        if found is None:
            return cls(database, "memory_id", (memory_id, prepared))
        return cls(database, "located", (_prepared(found, connections[database]), memory_id, prepared))

    @classmethod
    def whole(cls, conversation: Conversation, database: str) -> Key:
        """Return the key of a stored conversation that has its name in it."""
        name = conversation.memory_id, conversation.owner_key
        if kept_names(database) is None:
            return cls(database, "memory_id", name)
        return cls(database, "located", (prepared_id(conversation, connections[database]), *name))

    @property
    def columns(self) -> dict[str, Any]:
        """The values by the fields of a conversation, for a query of the ORM."""
        names = {"id": ("id",), "memory_id": ("memory_id", "owner_key"), "located": ("id", "memory_id", "owner_key")}
        return dict(zip(names[self.column], self.values, strict=True))

    @property
    def leads_nowhere(self) -> bool:
        """Whether nothing had the name when it was looked up."""
        return self.column == "located" and self.values[0] == _prepared(NOBODY, connections[self.database])


def prepared_id(conversation: Conversation, connection: BaseDatabaseWrapper) -> Any:
    """Return the primary key as the database takes it."""
    return _prepared(conversation.pk, connection)


def _prepared(primary_key: Any, connection: BaseDatabaseWrapper) -> Any:
    return Conversation._meta.pk.get_db_prep_value(primary_key, connection, prepared=False)


def connection_of(conversation: Conversation) -> tuple[BaseDatabaseWrapper, str]:
    """Return the connection that ``conversation`` was read from, and its alias."""
    database = conversation._state.db or "default"
    return connections[database], database
