"""The frequent reads and writes, in SQL that is built once: a snapshot, the memory, new rows, evictions and counters.

The ORM would build these queries and whole objects anew each time, which takes several times as long as the database
needs. Rarer and larger reads and writes use the ORM.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.core.entries import EvictionReason
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks
from chatmemory.database.statements import INSERTED, Key, connection_of, prepared_id, statements
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation, Message
from chatmemory.models.window_settings import FLAGS

Row = tuple[Any, ...]
"""A message with all its columns, as the driver returned it."""

COLUMNS = [field.attname for field in Message._meta.concrete_fields]

message_columns = itemgetter(*map(COLUMNS.index, ("type", "text", "payload")))

token_count = itemgetter(COLUMNS.index("token_count"))

status_columns = itemgetter(*map(COLUMNS.index, ("origin", "pins")))

place_columns = itemgetter(*map(COLUMNS.index, ("position", "memory_order")))

text_columns = itemgetter(*map(COLUMNS.index, ("text", "payload", "native")))
"""Returns the columns of a row that may be long."""

primary_key = itemgetter(COLUMNS.index("id"))

M = TypeVar("M", bound=models.Model)


def message_of(row: Row, database: str) -> Message:
    """Return a row as a message."""
    return instance_of(Message, row, database)


@cache
def _converted(model: type[models.Model]) -> tuple[tuple[int, Any], ...]:
    """Return the columns, by index, that a driver may return in another type than the field's."""
    plain = (models.CharField, models.TextField, models.IntegerField)
    return tuple(
        (index, field.get_col(model._meta.db_table))
        for index, field in enumerate(model._meta.concrete_fields)
        if not isinstance(field, plain)
    )


def instance_of(model: type[M], row: Row, database: str) -> M:
    """Return a whole row as an instance of ``model``."""
    connection = connections[database]
    values = list(row)
    for index, column in _converted(model):
        converters = connection.ops.get_db_converters(column) + column.output_field.get_db_converters(connection)
        for convert in converters:
            values[index] = convert(values[index], column, connection)
    return model.from_db(database, [field.attname for field in model._meta.concrete_fields], values)


_CHANGING = (*WINDOW_SETTINGS, *COUNTERS)


def lock(key: Key, known: Conversation | None = None) -> Conversation | None:
    """Lock a conversation until the transaction ends, and return it, or None.

    Args:
        key: the key of the conversation.
        known: the same conversation, read before, if only the columns that a change writes must be read again.
    """
    sql = statements(key.database)
    with connections[key.database].cursor() as cursor:
        for statement in (sql.lock_whole if known is None else sql.lock)[key.column]:
            cursor.execute(statement, key.values)
        rows = cursor.fetchall()
    if not rows:
        return None
    if known is None:
        return instance_of(Conversation, rows[0], key.database)
    return _updated(known, rows[0], key.database)


def read_snapshot(key: Key, known: Conversation | None, size: int) -> tuple[Conversation, list[Row]] | None:
    """Return a conversation and the oldest ``size`` rows of its memory, read at one moment, or None.

    Args:
        key: the key of the conversation.
        known: the same conversation, read before. Without it, the columns that no change writes are deferred.
        size: the number of rows.
    """
    with connections[key.database].cursor() as cursor:
        within = key.values if key.column == "memory_id" else key.values[:1]
        cursor.execute(statements(key.database).snapshot[key.column], (*within, size, *key.values))
        found = cursor.fetchall()
    if not found:
        return None
    if known is None:
        known = Conversation.from_db(key.database, ["id"], [Conversation._meta.pk.to_python(found[0][0])])
    end = 1 + len(_CHANGING)
    rows = [row[end:] for row in found]
    return _updated(known, found[0][1:end], key.database), [row for row in rows if primary_key(row) is not None]


def _updated(known: Conversation, changing: Row, database: str) -> Conversation:
    conversation = type(known).__new__(type(known))
    vars(conversation).update(known.__getstate__())  # a copy, like copy(), but without its overhead
    conversation._state.db = database
    vars(conversation).update(zip(_CHANGING, changing, strict=True))
    for name in FLAGS:  # SQLite and MariaDB return 0 or 1
        setattr(conversation, name, bool(getattr(conversation, name)))
    conversation.note_stored(WINDOW_SETTINGS)
    return conversation


def read_size(conversation: Conversation) -> tuple[int, int]:
    """Return the number of messages and of characters of the memory."""
    connection, database = connection_of(conversation)
    with connection.cursor() as cursor:
        cursor.execute(statements(database).size, [prepared_id(conversation, connection)])
        count, chars = cursor.fetchone()
    return int(count), int(chars or 0)


def read_oldest(conversation: Conversation, start: int, size: int) -> list[Row]:
    """Return ``size`` rows of the memory, in its order, after the first ``start``."""
    connection, database = connection_of(conversation)
    with connection.cursor() as cursor:
        cursor.execute(statements(database).oldest, [prepared_id(conversation, connection), size, start])
        return list(cursor.fetchall())


def read_memory(key: Key) -> list[Row]:
    """Return the columns of ``Statements.memory`` for each message of the memory, in order."""

    def read() -> list[Row]:
        with connections[key.database].cursor() as cursor:
            cursor.execute(statements(key.database).memory[key.column], key.values)
            return list(cursor.fetchall())

    return retry(key.database, read)


_MOST_ROWS = 50  # SQLite limits the parameters of a statement

CHARS_AT_ONCE = 1_000_000
"""The maximum number of characters that one statement writes."""

_CONVERSATION, _CREATED_AT, _EVICTED_IN, _EVICTED_AT, _REASON = map(
    INSERTED.index, ("conversation_id", "created_at", "evicted_in", "evicted_at", "eviction_reason")
)


_written = itemgetter(*map(COLUMNS.index, INSERTED))
_inserted = attrgetter(*INSERTED)
_counters = attrgetter(*COUNTERS)


def save(
    conversation: Conversation,
    added: Sequence[Message],
    evicted: Sequence[tuple[Row | Message, EvictionReason]],
    guards: Sequence[Any] = (),
) -> bool:
    """Insert new rows, mark stored ones as evicted, and write the counters, in the caller's transaction.

    The conversation is locked, so a row that conflicts with a position is the same row as in ``evicted``.

    Args:
        conversation: the conversation, locked unless there are ``guards``.
        added: unsaved rows with positions, at most as many as fit one statement.
        evicted: stored rows. If they also fit the statement of ``added``, they need no other statement.
        guards: the values that ``WINDOW_SETTINGS`` and ``COUNTERS`` must still have.

    Returns:
        False if the values have changed, and nothing was written.
    """
    connection, database = connection_of(conversation)
    sql = statements(database)
    with connection.cursor() as cursor:
        where = sql.if_unchanged if guards else ""
        key, now = _key_and_moment(conversation, connection)
        cursor.execute(sql.counters + where, [*_counters(conversation), now, key, *guards])
        if guards and not cursor.rowcount:
            return False
        along = evicted if fits_one_statement(added, evicted) else ()
        if added or along:
            rows = _rows(conversation, added, along, connection, key, now)
            values = ", ".join([f"({', '.join(['%s'] * len(INSERTED))})"] * len(rows))
            statement = sql.insert + values + (sql.upsert if along else "") + sql.returning
            cursor.execute(statement, [value for row in rows for value in row])
            _set_primary_keys(added, cursor.fetchall() if sql.returning else [], database)
        if evicted and not along:
            for reason in sorted({reason for _, reason in evicted}):
                for keys in chunks([key_of(row) for row, why in evicted if why is reason]):
                    statement = f"{sql.evict}({', '.join(['%s'] * len(keys))})"
                    cursor.execute(statement, [conversation.version, now, reason.value, key, *keys])
    return True


def save_at_once(
    conversation: Conversation,
    added: Sequence[Message],
    evicted: Sequence[tuple[Row | Message, EvictionReason]],
    guards: Sequence[Any],
) -> bool:
    """Save with ``guards`` in a separate transaction, in one statement if the database supports it; see ``save``."""
    connection, database = connection_of(conversation)
    sql = statements(database)
    if sql.at_once is None or not fits_one_statement(added, evicted):
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
    _set_primary_keys(added, found, database)
    return bool(found)


def fits_one_statement(added: Sequence[Message], evicted: Sequence[tuple[Row | Message, EvictionReason]] = ()) -> bool:
    """Return whether these rows can be written in one statement."""
    if len(added) + len(evicted) > _MOST_ROWS:
        return False
    return sum(map(chars_of, added)) + sum(chars_of(row) for row, _ in evicted) <= CHARS_AT_ONCE


def chars_of(row: Row | Message) -> int:
    """Return the number of characters of the columns that may be long; more than ``CHARS_AT_ONCE`` if unknown."""
    if isinstance(row, Message) and row.get_deferred_fields():
        return CHARS_AT_ONCE + 1  # its text was deferred, because it may be long
    long = (row.text, row.payload, row.native) if isinstance(row, Message) else text_columns(row)
    return sum(len(text or "") for text in long)


def _key_and_moment(conversation: Conversation, connection: BaseDatabaseWrapper) -> tuple[Any, Any]:
    now = connection.ops.adapt_datetimefield_value(conversation.updated_at)
    return prepared_id(conversation, connection), now


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


def key_of(row: Row | Message) -> Any:
    return row.pk if isinstance(row, Message) else primary_key(row)


def _set_primary_keys(added: Sequence[Message], written: Sequence[Row], database: str) -> None:
    keys: dict[Any, Any] = dict(written)
    for row in added:
        row.pk = keys.get(row.position)
        row._state.adding, row._state.db = False, database
