"""Identifiers: memory IDs, UUIDs, and a text column that every database compares exactly."""

from __future__ import annotations

import secrets
import time
import uuid
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import require_storable

MEMORY_ID_CHARS = 255


def uuid7() -> uuid.UUID:
    """Return a UUID that begins with the time, so that new rows go to the end of the index. Source: RFC 9562, 5.7."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return uuid.UUID(int=value)


def new_memory_id() -> str:
    """Return a memory ID for a conversation that is created without one."""
    return str(uuid7())


def memory_id_text(memory_id: object) -> str:
    """Return the text that the database stores for ``memory_id``: 1 and "1" are the same memory.

    Raises:
        InvalidValueError: the ID is None, empty, or longer than 255 characters.
        InvalidMessageError: databases cannot store the ID.
    """
    if memory_id is None:
        raise InvalidValueError("memory_id cannot be null", code="null")
    text = str(memory_id)
    if not text:
        raise InvalidValueError(
            "memory_id cannot be empty: all users without an ID would share one conversation", code="blank"
        )
    if len(text) > MEMORY_ID_CHARS:
        raise InvalidValueError(
            "memory_id has %(length)s characters; at most %(most)s are stored",
            code="max_length",
            length=len(text),
            most=MEMORY_ID_CHARS,
        )
    return require_storable(text, "memory_id")


def exact_collation(connection: BaseDatabaseWrapper) -> str | None:
    """Return the collation that compares texts exactly; None if that is the database's default."""
    if connection.vendor != "mysql":
        return None
    return "utf8mb4_nopad_bin" if getattr(connection, "mysql_is_mariadb", False) else "utf8mb4_0900_bin"


class ExactCharField(models.CharField):  # type: ignore[type-arg]
    """A ``CharField`` for identifiers.

    By default, MariaDB and MySQL treat "a", "A", "á" and "a " as equal, both in look-ups and in unique constraints.
    This field sets a collation that does not.
    """

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = super().db_parameters(connection)
        collation = exact_collation(connection)
        return parameters if collation is None else parameters | {"collation": collation}
