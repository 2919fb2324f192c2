"""The SQL of :mod:`chatmemory.hot_path`, for each database that Django knows.

Tables and columns are named by the models, and what differs between databases comes from Django's backends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.db import connections, models
from django.db.models.constants import OnConflict

from chatmemory.models import Conversation, Message

__all__ = ["COUNTERS", "EVICTION", "INSERTED", "Statements", "column_of", "statements"]

COUNTERS = (
    "window",
    "limit",
    "model",
    "always_keep_system_message_first",
    "version",
    "next_position",
    "message_count",
    "retained_count",
    "retained_tokens",
    "updated_at",
)
"""What a change writes of the conversation's row."""

EVICTION = ("evicted_in", "evicted_at", "eviction_reason")
"""What an eviction writes of a message's row."""

INSERTED = tuple(field.attname for field in Message._meta.concrete_fields if not field.primary_key)
"""What is written of a new message, in the order of its row."""


@dataclass(frozen=True)
class Statements:
    """Statements with ``%s`` for each parameter.

    Those about one conversation are by the column that names it: ``"id"``, or ``"memory_id"`` (and the owner's key).
    """

    lock: dict[str, tuple[str, ...]]
    """Only the last one gives a row, with the columns :data:`COUNTERS`."""

    lock_whole: dict[str, tuple[str, ...]]
    """The same with all columns."""

    memory: dict[str, str]
    """Type, text, payload and tokens of each message, then model, window and limit of the conversation."""

    oldest: str
    """By primary key, limit and offset: whole rows of the memory, in its order."""

    counters: str
    """Sets :data:`COUNTERS` of a primary key."""

    counters_in_insert: bool
    """Whether ``insert`` begins with ``counters``, for a database that can do both at once."""

    insert: str
    """Up to ``VALUES``."""

    upsert: str
    """What follows the values if some of them are stored rows, to be marked as evicted."""

    returning: str
    """Gives position and primary key of each row written; empty where the database cannot."""


def column_of(model: type[models.Model], name: str) -> str:
    """The column of a field."""
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)
    return str(field.column)


@cache
def statements(database: str) -> Statements:
    """Those for the database with this alias."""
    connection = connections[database]
    ops, features = connection.ops, connection.features
    quote = ops.quote_name
    conversations, messages = quote(Conversation._meta.db_table), quote(Message._meta.db_table)

    def of_conversation(*names: str) -> list[str]:
        return [f"{conversations}.{quote(column_of(Conversation, name))}" for name in names]

    def of_message(*names: str) -> list[str]:
        return [f"{messages}.{quote(column_of(Message, name))}" for name in names]

    key, owner_key, memory_id = of_conversation("id", "owner_key", "memory_id")
    text = models.CharField(max_length=255).cast_db_type(connection)
    where = {
        "id": f"{key} = %s",
        # The database makes a text of the owner's key as it did for the column: a UUID has another one on each.
        "memory_id": f"{memory_id} = %s AND {owner_key} = CAST(%s AS {text})",
    }

    def lock(names: list[str]) -> dict[str, tuple[str, ...]]:
        select = f"SELECT {', '.join(of_conversation(*names))} FROM {conversations} WHERE {{}}"
        if features.has_select_for_update:
            no_key = features.has_select_for_no_key_update
            parts = [f"{select} {ops.for_update_sql(no_key=no_key)}"]
        else:
            # Only a write takes SQLite's lock, and one that comes after a read may be refused.
            version = quote(column_of(Conversation, "version"))
            parts = [f"UPDATE {conversations} SET {version} = {version} WHERE {{}}", select]
            if features.can_return_columns_from_insert:
                parts = [f"{parts[0]} RETURNING {', '.join(of_conversation(*names))}"]
        return {name: tuple(part.format(condition) for part in parts) for name, condition in where.items()}

    conversation, evicted_in, memory_order = of_message("conversation", "evicted_in", "memory_order")
    # evicted_in is null in all of these; ordering by it lets PostgreSQL read the index in order.
    retained = f"{evicted_in} IS NULL ORDER BY {evicted_in}, {memory_order}"
    read = [*of_message("type", "text", "payload", "token_count"), *of_conversation("model", "window", "limit")]
    memory = f"SELECT {', '.join(read)} FROM {messages} INNER JOIN {conversations} ON {conversation} = {key}"
    whole_message = of_message(*[field.attname for field in Message._meta.concrete_fields])
    settings = ", ".join(f"{quote(column_of(Conversation, name))} = %s" for name in COUNTERS)
    counters = f"UPDATE {conversations} SET {settings} WHERE {where['id']}"
    inserted = [quote(column_of(Message, name)) for name in INSERTED]
    insert = f"INSERT INTO {messages} ({', '.join(inserted)}) VALUES "
    counters_in_insert = connection.vendor == "postgresql"
    returning = [quote(column_of(Message, name)) for name in ("position", "id")]
    return Statements(
        lock=lock(list(COUNTERS)),
        lock_whole=lock([field.attname for field in Conversation._meta.concrete_fields]),
        memory={name: f"{memory} WHERE {condition} AND {retained}" for name, condition in where.items()},
        oldest=f"SELECT {', '.join(whole_message)} FROM {messages} WHERE {conversation} = %s AND {retained} "
        "LIMIT %s OFFSET %s",
        counters=counters,
        counters_in_insert=counters_in_insert,
        insert=f"WITH counted AS ({counters}) {insert}" if counters_in_insert else insert,
        upsert=" "
        + ops.on_conflict_suffix_sql(
            inserted,
            OnConflict.UPDATE,
            [column_of(Message, name) for name in EVICTION],
            [column_of(Message, name) for name in ("conversation", "position")],
        ),
        returning=f" RETURNING {', '.join(returning)}" if features.can_return_rows_from_bulk_insert else "",
    )
