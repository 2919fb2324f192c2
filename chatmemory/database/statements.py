"""The SQL of the frequent reads and writes, for each database of Django, and the key of a conversation.

The names of tables and columns come from the models, and the differences between databases from Django's backends. Each
statement is built once for a database.

An addition reads the conversation with its oldest rows (``snapshot``), and writes with ``at_once`` if the database
supports it, otherwise with ``counters`` and ``insert``. Under the lock, it runs ``lock``, ``oldest`` if something must
be evicted, ``counters`` and ``insert``. A read of the memory runs ``memory``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.constants import OnConflict

from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation, Message
from chatmemory.models.conversation_names import NOBODY, kept_names, located


@dataclass(frozen=True)
class Key:
    """The column and the values that identify a conversation."""

    database: str
    """The alias of the database."""

    column: str
    """``"id"``; ``"memory_id"``, which is unique per owner; or ``"located"``: both, if names are in a separate table.
    """

    values: tuple[Any, ...]
    """The values, prepared for the database."""

    @classmethod
    def of(cls, conversation: Conversation, database: str) -> Key:
        return cls(database, "id", (prepared_id(conversation, connections[database]),))

    @classmethod
    def named(cls, owner: Any, memory_id: str, database: str) -> Key:
        """Return the key of the conversation with this owner (None: no owner) and memory ID."""
        prepared = ""
        if owner is not None:
            prepared = owner._meta.pk.get_db_prep_value(owner.pk, connections[database], prepared=False)
        found = located(owner, memory_id, database)
        if found is None:
            return cls(database, "memory_id", (memory_id, prepared))
        return cls(database, "located", (_prepared(found, connections[database]), memory_id, prepared))

    @classmethod
    def whole(cls, conversation: Conversation, database: str) -> Key:
        """Return the key of a stored conversation, including its name."""
        name = conversation.memory_id, conversation.owner_key
        if kept_names(database) is None:
            return cls(database, "memory_id", name)
        return cls(database, "located", (prepared_id(conversation, connections[database]), *name))

    @property
    def columns(self) -> dict[str, Any]:
        """The values by field name, for a query of the ORM."""
        names = {"id": ("id",), "memory_id": ("memory_id", "owner_key"), "located": ("id", "memory_id", "owner_key")}
        return dict(zip(names[self.column], self.values, strict=True))

    @property
    def leads_nowhere(self) -> bool:
        """Whether the name was unknown when it was looked up."""
        return self.column == "located" and self.values[0] == _prepared(NOBODY, connections[self.database])


def prepared_id(conversation: Conversation, connection: BaseDatabaseWrapper) -> Any:
    """Return the primary key, prepared for the database."""
    return _prepared(conversation.pk, connection)


def _prepared(primary_key: Any, connection: BaseDatabaseWrapper) -> Any:
    return Conversation._meta.pk.get_db_prep_value(primary_key, connection, prepared=False)


def connection_of(conversation: Conversation) -> tuple[BaseDatabaseWrapper, str]:
    """Return the connection from which ``conversation`` was read, and its alias."""
    database = conversation._state.db or "default"
    return connections[database], database


_EVICTION = ("evicted_in", "evicted_at", "eviction_reason")
"""The columns of a message that an eviction writes."""

INSERTED = tuple(field.attname for field in Message._meta.concrete_fields if not field.primary_key)
"""The columns of a new message, in the order of its row."""


@dataclass(frozen=True)
class Statements:
    """SQL statements with ``%s`` for each parameter.

    Statements about one conversation are dicts by key column: ``"id"``, ``"memory_id"`` (with the owner's key), or
    ``"located"`` (both).
    """

    lock: dict[str, tuple[str, ...]]
    """Lock a conversation. Only the last statement returns a row: ``WINDOW_SETTINGS`` and ``COUNTERS``."""

    lock_whole: dict[str, tuple[str, ...]]
    """Lock a conversation, and return all its columns."""

    memory: dict[str, str]
    """Type, text, payload, tokens, version, origin and pins of each message, then prefix version and
    ``WINDOW_SETTINGS`` of the conversation.
    """

    size: str
    """The number of messages and characters of the memory, by primary key. Characters are null if the memory is empty.
    """

    oldest: str
    """Whole rows of the memory in its order, by primary key, limit and offset."""

    counters: str
    """Set ``COUNTERS`` and ``updated_at``, by primary key."""

    if_unchanged: str
    """The condition that may follow ``counters``: ``WINDOW_SETTINGS`` and ``COUNTERS`` have these values."""

    snapshot: dict[str, str]
    """Parameters: primary key (or name), limit, key. Each row contains the primary key, ``WINDOW_SETTINGS`` and
    ``COUNTERS`` of the conversation, and one of its oldest retained messages (nulls if it has none).
    """

    insert: str
    """The start of an insert, up to ``VALUES``."""

    upsert: str
    """The end of an insert in which rows that are already stored are marked as evicted."""

    evict: str
    """Mark rows as evicted. Parameters: version, moment, reason, and the conversation's primary key. The list of the
    rows' primary keys must follow.
    """

    returning: str
    """The clause that returns position and primary key of each written row; empty if the database does not support it.
    """

    at_once: tuple[str, str, str] | None
    """The text before, between and after the rows of values, the first with casts, for databases that support
    ``counters``, ``if_unchanged`` and ``insert`` in one statement; otherwise None.
    """


def _column_of(model: type[models.Model], name: str) -> str:
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)
    return str(field.column)


@cache
def statements(database: str) -> Statements:
    """Return the statements for the database with this alias."""
    connection = connections[database]
    ops, features = connection.ops, connection.features
    quote = ops.quote_name
    conversations, messages = quote(Conversation._meta.db_table), quote(Message._meta.db_table)

    # The SQL is short, because Django scans every statement: with only one table, columns have no prefix.
    def of_conversation(*names: str, prefix: str = "") -> list[str]:
        return [prefix + quote(_column_of(Conversation, name)) for name in names]

    def of_message(*names: str, prefix: str = "") -> list[str]:
        return [prefix + quote(_column_of(Message, name)) for name in names]

    text = models.CharField(max_length=255).cast_db_type(connection)

    def where(prefix: str = "") -> dict[str, str]:
        key, memory_id, owner_key = of_conversation("id", "memory_id", "owner_key", prefix=prefix)
        # The database casts the owner's key as in the column, because each database writes a UUID differently.
        by_id, by_name = f"{key} = %s", f"{memory_id} = %s AND {owner_key} = CAST(%s AS {text})"
        return {"id": by_id, "memory_id": by_name, "located": f"{by_id} AND {by_name}"}

    def is_equal(name: str) -> str:
        (column,) = of_conversation(name)
        if Conversation._meta.get_field(name).null:  # nulls are never equal; no column has a negative number
            return f"COALESCE({column}, -1) = COALESCE(%s, -1)"
        return f"{column} = %s"

    def retained(prefix: str = "") -> str:
        evicted_in, memory_order = of_message("evicted_in", "memory_order", prefix=prefix)
        # evicted_in is null in all of these. Ordering by it lets PostgreSQL read the index in order.
        return f"{evicted_in} IS NULL ORDER BY {evicted_in}, {memory_order}"

    def lock(names: list[str]) -> dict[str, tuple[str, ...]]:
        select = f"SELECT {', '.join(of_conversation(*names))} FROM {conversations} WHERE {{}}"
        if features.has_select_for_update:
            no_key = features.has_select_for_no_key_update
            parts = [f"{select} {ops.for_update_sql(no_key=no_key)}"]
        else:
            # Only a write takes SQLite's lock, and a write after a read may be refused.
            (version,) = of_conversation("version")
            parts = [f"UPDATE {conversations} SET {version} = {version} WHERE {{}}", select]
            if features.can_return_columns_from_insert:
                parts = [f"{parts[0]} RETURNING {', '.join(of_conversation(*names))}"]
        return {name: tuple(part.format(condition) for part in parts) for name, condition in where().items()}

    (key,), (conversation,) = of_conversation("id"), of_message("conversation")
    read = [
        *of_message("type", "text", "payload", "token_count", "added_in", "origin", "pins", prefix="m."),
        *of_conversation("prefix_version", *WINDOW_SETTINGS, prefix="c."),
    ]
    memory = f"SELECT {', '.join(read)} FROM {messages} m INNER JOIN {conversations} c ON m.{conversation} = c.{key}"
    whole = [field.attname for field in Message._meta.concrete_fields]
    oldest = f"SELECT {', '.join(of_message(*whole))} FROM {messages} WHERE {conversation} = {{}} AND {retained()}"
    both = [*of_conversation("id", *WINDOW_SETTINGS, *COUNTERS, prefix="c."), *of_message(*whole, prefix="m.")]
    # A planner finds the partition or the node by a parameter, but not by a subselect.
    keys = dict.fromkeys(where(), "%s") | {
        "memory_id": f"(SELECT {key} FROM {conversations} WHERE {where()['memory_id']})"
    }
    snapshot = {
        name: f"SELECT {', '.join(both)} FROM {conversations} c LEFT JOIN ("
        f"{oldest.format(keys[name])} LIMIT %s) m ON 1 = 1 "
        f"WHERE {condition} ORDER BY {of_message('memory_order', prefix='m.')[0]}"
        for name, condition in where("c.").items()
    }
    length = "CHAR_LENGTH" if connection.vendor == "mysql" else "LENGTH"  # not of bytes
    text_length, *others = [f"{length}({name})" for name in of_message("text", "payload", "native")]
    chars = " + ".join([text_length, *(f"COALESCE({each}, 0)" for each in others)])
    (evicted_in,) = of_message("evicted_in")
    settings = ", ".join(f"{name} = %s" for name in of_conversation(*COUNTERS, "updated_at"))
    counters = f"UPDATE {conversations} SET {settings} WHERE {where()['id']}"
    if_unchanged = "".join(f" AND {is_equal(name)}" for name in (*WINDOW_SETTINGS, *COUNTERS))
    inserted = of_message(*INSERTED)
    insert = f"INSERT INTO {messages} ({', '.join(inserted)}) "
    returning = ", ".join(of_message("position", "id"))
    return Statements(
        lock=lock([*WINDOW_SETTINGS, *COUNTERS]),
        lock_whole=lock([field.attname for field in Conversation._meta.concrete_fields]),
        memory={name: f"{memory} WHERE {condition} AND {retained('m.')}" for name, condition in where("c.").items()},
        size=f"SELECT COUNT(*), SUM({chars}) FROM {messages} WHERE {conversation} = %s AND {evicted_in} IS NULL",
        oldest=f"{oldest.format('%s')} LIMIT %s OFFSET %s",
        counters=counters,
        if_unchanged=if_unchanged,
        snapshot=snapshot,
        insert=f"{insert}VALUES ",
        upsert=" "
        + ops.on_conflict_suffix_sql(
            inserted,
            OnConflict.UPDATE,
            [_column_of(Message, name) for name in _EVICTION],
            [_column_of(Message, name) for name in ("conversation", "position")],
        ),
        evict=f"UPDATE {messages} SET {', '.join(f'{name} = %s' for name in of_message(*_EVICTION))} "
        f"WHERE {conversation} = %s AND {of_message('id')[0]} IN ",
        returning=f" RETURNING {returning}" if features.can_return_rows_from_bulk_insert else "",
        at_once=_at_once(connection, f"{counters}{if_unchanged} RETURNING 1", insert),
    )


def _at_once(connection: BaseDatabaseWrapper, counters: str, insert: str) -> tuple[str, str, str] | None:
    # On several tables of a distributed database, one statement costs more than a transaction of two.
    if connection.vendor != "postgresql" or kept_names(connection.alias) is not None:
        return None
    types = [Message._meta.get_field(name).cast_db_type(connection) for name in INSERTED]  # type: ignore[union-attr]
    first = ", ".join(f"CAST(%s AS {type})" for type in types)
    select = f"{insert}SELECT given.* FROM (VALUES ({first})"
    return f"WITH counted AS ({counters}) {select}", ", ", ") given CROSS JOIN counted"
