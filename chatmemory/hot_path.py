"""The statements of every turn, in SQL that is built once.

Lock the conversation, read the old end of its memory, write, read the memory: the ORM builds such queries anew each
time, and that takes several times what the database needs to run them. Tables and columns are named by the models, and
what differs between databases comes from Django's backends. What is rarer, or larger, goes through the ORM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.constants import OnConflict

from chatmemory.models import Conversation, Message

__all__ = [
    "COUNTERS",
    "MOST_ROWS",
    "Key",
    "instance",
    "lock",
    "read_memory",
    "read_oldest",
    "save_counters",
    "save_rows",
]

Row = tuple[Any, ...]
M = TypeVar("M", bound=models.Model)

MOST_ROWS = 50
"""The most that :func:`save_rows` takes: SQLite bounds the parameters of a statement."""

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

_EVICTION = ("evicted_in", "evicted_at", "eviction_reason")


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
        return cls(database, "id", (_prepared_id(conversation, connections[database]),))

    @classmethod
    def named(cls, owner: Any, memory_id: str, database: str) -> Key:
        """By the memory ID that ``owner``, or with None nobody, has it under."""
        if owner is None:
            return cls(database, "memory_id", (memory_id, ""))
        prepared = owner._meta.pk.get_db_prep_value(owner.pk, connections[database], prepared=False)
        return cls(database, "memory_id", (memory_id, prepared))


@dataclass(frozen=True)
class _Sql:
    lock: dict[str, tuple[str, ...]]
    """By the key's column; all but the last statement give no row."""

    oldest: str
    insert: str
    upsert: str
    returning: str
    save_counters: str
    memory: dict[str, str]


@cache
def _sql(database: str) -> _Sql:
    connection = connections[database]
    ops, features = connection.ops, connection.features
    quote = ops.quote_name
    conversations, messages = quote(Conversation._meta.db_table), quote(Message._meta.db_table)

    def column(model: type[models.Model], name: str) -> str:
        return quote(_column(model, name))

    def columns(model: type[models.Model]) -> str:
        return ", ".join(column(model, field.name) for field in model._meta.concrete_fields)

    key, owner_key, memory_id = (f"{conversations}.{column(Conversation, n)}" for n in ("id", "owner_key", "memory_id"))
    text = models.CharField(max_length=255).cast_db_type(connection)
    where = {
        "id": f"{key} = %s",
        # The database makes a text of the owner's key as it did for the column: a UUID has another one on each.
        "memory_id": f"{memory_id} = %s AND {owner_key} = CAST(%s AS {text})",
    }
    version = column(Conversation, "version")
    if features.has_select_for_update:
        no_key = features.has_select_for_no_key_update
        lock = [f"SELECT {columns(Conversation)} FROM {conversations} WHERE {{}} {ops.for_update_sql(no_key=no_key)}"]
    else:
        # Only a write takes SQLite's lock, and one that comes after a read may be refused.
        lock = [f"UPDATE {conversations} SET {version} = {version} WHERE {{}}"]
        if features.can_return_columns_from_insert:
            lock[0] += f" RETURNING {columns(Conversation)}"
        else:
            lock.append(f"SELECT {columns(Conversation)} FROM {conversations} WHERE {{}}")
    of_conversation, evicted_in = column(Message, "conversation"), column(Message, "evicted_in")
    memory_order = column(Message, "memory_order")
    names = [column(Message, field.attname) for field in _inserted()]
    conflict = ops.on_conflict_suffix_sql(
        names,
        OnConflict.UPDATE,
        [_column(Message, name) for name in _EVICTION],
        [_column(Message, name) for name in ("conversation", "position")],
    )
    read = [f"{messages}.{column(Message, name)}" for name in ("type", "text", "payload", "token_count")]
    read += [f"{conversations}.{column(Conversation, name)}" for name in ("model", "window", "limit")]
    # evicted_in is null in all of these; ordering by it lets PostgreSQL read the index in order.
    retained = f"{{}}{evicted_in} IS NULL ORDER BY {{}}{evicted_in}, {{}}{memory_order}"
    settings = ", ".join(f"{column(Conversation, name)} = %s" for name in COUNTERS)
    return _Sql(
        lock={name: tuple(statement.format(where[name]) for statement in lock) for name in where},
        oldest=f"SELECT {columns(Message)} FROM {messages} WHERE {of_conversation} = %s AND "
        f"{retained.format('', '', '')} LIMIT %s OFFSET %s",
        insert=f"INSERT INTO {messages} ({', '.join(names)}) VALUES ",
        upsert=f" {conflict}",
        returning=f" RETURNING {column(Message, 'position')}, {column(Message, 'id')}"
        if features.can_return_rows_from_bulk_insert
        else "",
        save_counters=f"UPDATE {conversations} SET {settings} WHERE {where['id']}",
        memory={
            name: f"SELECT {', '.join(read)} FROM {messages} INNER JOIN {conversations} ON "
            f"{messages}.{of_conversation} = {key} WHERE {where[name]} AND "
            f"{retained.format(*[f'{messages}.'] * 3)}"
            for name in where
        },
    )


def _column(model: type[models.Model], name: str) -> str:
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)
    return str(field.column)


@cache
def _inserted() -> tuple[models.Field[Any, Any], ...]:
    return tuple(field for field in Message._meta.concrete_fields if not field.primary_key)


@cache
def _converted(model: type[models.Model]) -> tuple[tuple[int, Any], ...]:
    """The columns that a driver may give in another type than the field's, and where they are."""
    plain = (models.CharField, models.TextField, models.IntegerField)
    return tuple(
        (index, field.get_col(model._meta.db_table))
        for index, field in enumerate(model._meta.concrete_fields)
        if not isinstance(field, plain)
    )


def _prepared_id(conversation: Conversation, connection: BaseDatabaseWrapper) -> Any:
    return Conversation._meta.pk.get_db_prep_value(conversation.pk, connection, prepared=False)


def instance(model: type[M], row: Row, database: str) -> M:
    """The object of a row that has all columns of ``model``."""
    connection = connections[database]
    values = list(row)
    for index, column in _converted(model):
        field = column.output_field
        for convert in (*connection.ops.get_db_converters(column), *field.get_db_converters(connection)):
            values[index] = convert(values[index], column, connection)
    return model.from_db(database, [field.attname for field in model._meta.concrete_fields], values)


def lock(key: Key) -> Conversation | None:
    """The conversation, locked until the transaction ends."""
    with connections[key.database].cursor() as cursor:
        for statement in _sql(key.database).lock[key.column]:
            cursor.execute(statement, key.values)
        rows: list[Row] = cursor.fetchall()
    return instance(Conversation, rows[0], key.database) if rows else None


def read_oldest(conversation: Conversation, start: int, size: int) -> list[Row]:
    """Rows of the memory in its order, for :func:`instance`: ``size`` of them after the first ``start``."""
    database = conversation._state.db or "default"
    connection = connections[database]
    with connection.cursor() as cursor:
        cursor.execute(_sql(database).oldest, [_prepared_id(conversation, connection), size, start])
        return list(cursor.fetchall())


def read_memory(key: Key) -> list[Row]:
    """The memory in order: type, text, payload and tokens of each message; model, window and limit of the row."""
    with connections[key.database].cursor() as cursor:
        cursor.execute(_sql(key.database).memory[key.column], key.values)
        return list(cursor.fetchall())


def save_rows(conversation: Conversation, added: Sequence[Message], evicted: Sequence[Message]) -> None:
    """Insert new rows and mark stored ones as evicted, in one statement.

    The rows are locked by their conversation, so what conflicts with a position is the very row that is given.
    """
    database = conversation._state.db or "default"
    connection = connections[database]
    sql = _sql(database)
    names = [field.attname for field in _inserted()]
    key, adapted = _prepared_id(conversation, connection), connection.ops.adapt_datetimefield_value
    values: list[Any] = []
    for row in (*added, *evicted):
        for name in names:
            value = getattr(row, name)
            if name == "conversation_id":
                value = key
            elif name in ("created_at", "evicted_at"):
                value = adapted(value)
            values.append(value)
    places = f"({', '.join(['%s'] * len(names))})"
    statement = sql.insert + ", ".join([places] * (len(added) + len(evicted)))
    with connection.cursor() as cursor:
        cursor.execute(statement + (sql.upsert if evicted else "") + sql.returning, values)
        keys = dict(cursor.fetchall()) if sql.returning else {}
    for row in added:
        row.pk = keys.get(row.position)
        row._state.adding, row._state.db = False, database


def save_counters(conversation: Conversation) -> None:
    """Write :data:`COUNTERS`."""
    database = conversation._state.db or "default"
    connection = connections[database]
    values = [getattr(conversation, name) for name in COUNTERS[:-1]]
    values.append(connection.ops.adapt_datetimefield_value(conversation.updated_at))
    with connection.cursor() as cursor:
        cursor.execute(_sql(database).save_counters, [*values, _prepared_id(conversation, connection)])
