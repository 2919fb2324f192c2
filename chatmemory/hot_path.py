"""What every turn asks of the database, in SQL that is built once.

Lock the conversation, read the old end of its memory, write, read the memory: the ORM builds such queries, and objects
of whole rows, anew each time, and that takes several times what the database needs. What is rarer, or larger, goes
through the ORM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.eviction import EvictionReason
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation, Message
from chatmemory.retrying import retried
from chatmemory.statements import INSERTED, statements

__all__ = [
    "MOST_ROWS",
    "Key",
    "Row",
    "essentials",
    "lock",
    "long_texts",
    "message_of",
    "primary_key",
    "read_memory",
    "read_oldest",
    "read_snapshot",
    "save",
    "save_at_once",
]

M = TypeVar("M", bound=models.Model)

Row = tuple[Any, ...]
"""A message with all its columns, as the driver gave it."""

MOST_ROWS = 50
"""The most that :func:`save` takes: SQLite bounds the parameters of a statement."""

_COLUMNS = [field.attname for field in Message._meta.concrete_fields]
_CONVERSATION, _CREATED_AT, _EVICTED_IN, _EVICTED_AT, _REASON = map(
    INSERTED.index, ("conversation_id", "created_at", "evicted_in", "evicted_at", "eviction_reason")
)

essentials = itemgetter(*map(_COLUMNS.index, ("type", "text", "payload", "token_count")))
"""Type, text, payload and tokens of a row."""

long_texts = itemgetter(*map(_COLUMNS.index, ("text", "payload", "native")))
"""What of a row has no bound but that of a message."""

primary_key = itemgetter(_COLUMNS.index("id"))
"""Of a row."""

_CHANGING = (*WINDOW_SETTINGS, *COUNTERS)

_written = itemgetter(*map(_COLUMNS.index, INSERTED))
_inserted = attrgetter(*INSERTED)
_counters = attrgetter(*COUNTERS)


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


def lock(key: Key, known: Conversation | None = None) -> Conversation | None:
    """The conversation, locked until the transaction ends; None if it is missing.

    Args:
        key: its name.
        known: the same conversation, read before, if what a change writes is all that must be read anew.
    """
    sql = statements(key.database)
    with connections[key.database].cursor() as cursor:
        for statement in (sql.lock_whole if known is None else sql.lock)[key.column]:
            cursor.execute(statement, key.values)
        rows = cursor.fetchall()
    if not rows:
        return None
    if known is None:
        return _instance(Conversation, rows[0], key.database)
    return _as_it_is(known, rows[0], key.database)


def read_snapshot(key: Key, known: Conversation | None, size: int) -> tuple[Conversation, list[Row]] | None:
    """The conversation and the oldest ``size`` rows of its memory, at one moment; None if it is missing.

    Args:
        key: its name.
        known: the same conversation, read before. Without, all that a change does not write is read when asked for.
        size: of the rows.
    """
    with connections[key.database].cursor() as cursor:
        cursor.execute(statements(key.database).snapshot[key.column], (*key.values, size, *key.values))
        found = cursor.fetchall()
    if not found:
        return None
    if known is None:
        known = Conversation.from_db(key.database, ["id"], [Conversation._meta.pk.to_python(found[0][0])])
    end = 1 + len(_CHANGING)
    rows = [row[end:] for row in found]
    return _as_it_is(known, found[0][1:end], key.database), [row for row in rows if primary_key(row) is not None]


def _as_it_is(known: Conversation, changing: Row, database: str) -> Conversation:
    conversation = type(known).__new__(type(known))
    vars(conversation).update(known.__getstate__())  # as copy() does, by way of all that pickling needs
    conversation._state.db = database
    vars(conversation).update(zip(_CHANGING, changing, strict=True))
    conversation.always_keep_system_message_first = bool(conversation.always_keep_system_message_first)
    return conversation


def read_oldest(conversation: Conversation, start: int, size: int) -> list[Row]:
    """``size`` rows of the memory, in its order, after the first ``start``."""
    connection, database = _connection(conversation)
    with connection.cursor() as cursor:
        cursor.execute(statements(database).oldest, [_prepared_id(conversation, connection), size, start])
        return list(cursor.fetchall())


def read_memory(key: Key) -> list[Row]:
    """The memory in order: type, text, payload and tokens of each message; model, window and limit of the row."""

    def read() -> list[Row]:
        with connections[key.database].cursor() as cursor:
            cursor.execute(statements(key.database).memory[key.column], key.values)
            return list(cursor.fetchall())

    return retried(key.database, read)


def message_of(row: Row, database: str) -> Message:
    """The object of a row."""
    return _instance(Message, row, database)


def save(
    conversation: Conversation,
    added: Sequence[Message],
    evicted: Sequence[tuple[Row | Message, EvictionReason]],
    guards: Sequence[Any] = (),
) -> bool:
    """Insert new rows, mark stored ones as evicted, and write what the conversation has become, in a transaction.

    The conversation is locked then, so that what conflicts with a position is the very row that is given.

    Args:
        conversation: locked, unless there are ``guards``.
        added: unsaved rows with their places.
        evicted: stored rows.
        guards: what :data:`WINDOW_SETTINGS` and :data:`COUNTERS` must be still.

    Returns:
        False if they are not, and nothing was written.
    """
    connection, database = _connection(conversation)
    sql = statements(database)
    with connection.cursor() as cursor:
        where = sql.if_unchanged if guards else ""
        key, now = _key_and_moment(conversation, connection)
        cursor.execute(sql.counters + where, [*_counters(conversation), now, key, *guards])
        if guards and not cursor.rowcount:
            return False
        if added or evicted:
            rows = _rows(conversation, added, evicted, connection, key, now)
            values = ", ".join([f"({', '.join(['%s'] * len(INSERTED))})"] * len(rows))
            statement = sql.insert + values + (sql.upsert if evicted else "") + sql.returning
            cursor.execute(statement, [value for row in rows for value in row])
            _learn(added, cursor.fetchall() if sql.returning else [], database)
    return True


def save_at_once(
    conversation: Conversation,
    added: Sequence[Message],
    evicted: Sequence[tuple[Row | Message, EvictionReason]],
    guards: Sequence[Any],
) -> bool:
    """What :func:`save` does with ``guards``, in a transaction of its own; in one statement where that is possible."""
    connection, database = _connection(conversation)
    sql = statements(database)
    if sql.at_once is None:
        with transaction.atomic(using=database):
            return save(conversation, added, evicted, guards)
    before, between, after = sql.at_once
    key, now = _key_and_moment(conversation, connection)
    rows = _rows(conversation, added, evicted, connection, key, now)
    values = between.join(["", *[f"({', '.join(['%s'] * len(INSERTED))})"] * (len(rows) - 1)])
    statement = before + values + after + (sql.upsert if evicted else "") + sql.returning
    with connection.cursor() as cursor:
        written = [value for row in rows for value in row]
        cursor.execute(statement, [*_counters(conversation), now, key, *guards, *written])
        found = cursor.fetchall()
    _learn(added, found, database)
    return bool(found)


def _key_and_moment(conversation: Conversation, connection: BaseDatabaseWrapper) -> tuple[Any, Any]:
    now = connection.ops.adapt_datetimefield_value(conversation.updated_at)
    return _prepared_id(conversation, connection), now


def _rows(
    conversation: Conversation,
    added: Sequence[Message],
    evicted: Sequence[tuple[Row | Message, EvictionReason]],
    connection: BaseDatabaseWrapper,
    key: Any,
    now: Any,
) -> list[list[Any]]:
    rows = []
    for row in added:
        values = list(_inserted(row))
        values[_CONVERSATION], values[_CREATED_AT] = key, now
        if row.evicted_at is not None:
            values[_EVICTED_AT] = now
        rows.append(values)
    for gone, reason in evicted:
        if isinstance(gone, Message):
            values = list(_inserted(gone))
            created_at = connection.ops.adapt_datetimefield_value(gone.created_at)
            values[_CONVERSATION], values[_CREATED_AT] = key, created_at
        else:
            values = list(_written(gone))
        values[_EVICTED_IN], values[_EVICTED_AT], values[_REASON] = conversation.version, now, reason.value
        rows.append(values)
    return rows


def _learn(added: Sequence[Message], written: Sequence[Row], database: str) -> None:
    keys: dict[Any, Any] = dict(written)
    for row in added:
        row.pk = keys.get(row.position)
        row._state.adding, row._state.db = False, database


def _connection(conversation: Conversation) -> tuple[BaseDatabaseWrapper, str]:
    database = conversation._state.db or "default"
    return connections[database], database


def _prepared_id(conversation: Conversation, connection: BaseDatabaseWrapper) -> Any:
    return Conversation._meta.pk.get_db_prep_value(conversation.pk, connection, prepared=False)


@cache
def _converted(model: type[models.Model]) -> tuple[tuple[int, Any], ...]:
    """The columns that a driver may give in another type than the field's, and where they are."""
    plain = (models.CharField, models.TextField, models.IntegerField)
    return tuple(
        (index, field.get_col(model._meta.db_table))
        for index, field in enumerate(model._meta.concrete_fields)
        if not isinstance(field, plain)
    )


def _instance(model: type[M], row: Row, database: str) -> M:
    connection = connections[database]
    values = list(row)
    for index, column in _converted(model):
        converters = connection.ops.get_db_converters(column) + column.output_field.get_db_converters(connection)
        for convert in converters:
            values[index] = convert(values[index], column, connection)
    return model.from_db(database, [field.attname for field in model._meta.concrete_fields], values)
