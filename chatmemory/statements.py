"""The SQL of :mod:`chatmemory.hot_path`, for each database that Django knows.

Tables and columns are named by the models, and what differs between databases comes from Django's backends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.constants import OnConflict

from chatmemory.models import Conversation, Message

__all__ = ["COUNTERS", "EVICTION", "GUARDS", "INSERTED", "Statements", "column_of", "statements"]

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

GUARDS = ("version", "window", "limit", "model", "always_keep_system_message_first")
"""What must be as it was, if a plan made without a lock is to hold."""

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

    if_unchanged: str
    """Follows ``counters``: only if the columns :data:`GUARDS` have these values."""

    snapshot: dict[str, str]
    """With the key twice, and a limit between: primary key and :data:`COUNTERS` of the conversation with each of its
    oldest rows in memory, or with nulls if there is none."""

    insert: str
    """Up to ``VALUES``."""

    upsert: str
    """What follows the values if some of them are stored rows, to be marked as evicted."""

    returning: str
    """Gives position and primary key of each row written; empty where the database cannot."""

    at_once: tuple[str, str, str] | None
    """What precedes, is between and follows the values where ``counters``, ``if_unchanged`` and ``insert`` are one
    statement, and the values of the first row need types."""


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
    insert = f"INSERT INTO {messages} ({', '.join(inserted)}) "
    if_unchanged = "".join(f" AND {name} = %s" for name in of_conversation(*GUARDS))
    oldest = f"SELECT {', '.join(whole_message)} FROM {messages} WHERE {conversation} = {{}} AND {retained} LIMIT %s"
    hers = ", ".join(of_conversation("id", *COUNTERS))
    its = ", ".join(f"oldest.{name.partition('.')[2]}" for name in whole_message)
    snapshot = (
        f"SELECT {hers}, {its} FROM {conversations} LEFT JOIN "
        f"({oldest.format(f'(SELECT {key} FROM {conversations} WHERE {{0}})')}) oldest ON 1 = 1 "
        f"WHERE {{0}} ORDER BY oldest.{memory_order.partition('.')[2]}"
    )
    returning = [quote(column_of(Message, name)) for name in ("position", "id")]
    return Statements(
        lock=lock(list(COUNTERS)),
        lock_whole=lock([field.attname for field in Conversation._meta.concrete_fields]),
        memory={name: f"{memory} WHERE {condition} AND {retained}" for name, condition in where.items()},
        oldest=f"{oldest.format('%s')} OFFSET %s",
        counters=counters,
        if_unchanged=if_unchanged,
        snapshot={name: snapshot.format(condition) for name, condition in where.items()},
        insert=f"{insert}VALUES ",
        upsert=" "
        + ops.on_conflict_suffix_sql(
            inserted,
            OnConflict.UPDATE,
            [column_of(Message, name) for name in EVICTION],
            [column_of(Message, name) for name in ("conversation", "position")],
        ),
        returning=f" RETURNING {', '.join(returning)}" if features.can_return_rows_from_bulk_insert else "",
        at_once=_at_once(connection, f"{counters}{if_unchanged} RETURNING 1", insert),
    )


def _at_once(connection: BaseDatabaseWrapper, counters: str, insert: str) -> tuple[str, str, str] | None:
    if connection.vendor != "postgresql":
        return None
    types = [Message._meta.get_field(name).cast_db_type(connection) for name in INSERTED]  # type: ignore[union-attr]
    first = ", ".join(f"CAST(%s AS {type})" for type in types)
    select = f"{insert}SELECT given.* FROM (VALUES ({first})"
    return f"WITH counted AS ({counters}) {select}", ", ", ") given CROSS JOIN counted"
