"""The hot reads: the locked conversation, its snapshot with the oldest rows, and the memory."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

from django.db import connections, models

from chatmemory.database.connections import retry
from chatmemory.database.key import Key, connection_of, prepared_id
from chatmemory.database.sql.statements import statements
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation, Message
from chatmemory.models.window_settings import FLAGS

Row = tuple[Any, ...]
"""A message with all its columns, as the driver returned it."""

COLUMNS = [field.attname for field in Message._meta.concrete_fields]

message_columns = itemgetter(*map(COLUMNS.index, ("type", "text", "payload")))
"""Returns type, text and payload of a row."""

token_count = itemgetter(COLUMNS.index("token_count"))
"""Returns the tokens of a row."""

status_columns = itemgetter(*map(COLUMNS.index, ("origin", "pins")))
"""Returns origin and pins of a row."""

place_columns = itemgetter(*map(COLUMNS.index, ("position", "memory_order")))
"""Returns position and memory order of a row."""

text_columns = itemgetter(*map(COLUMNS.index, ("text", "payload", "native")))
"""Returns text, payload and native form of a row: the columns that may be long."""

primary_key = itemgetter(COLUMNS.index("id"))
"""Returns the primary key of a row."""

M = TypeVar("M", bound=models.Model)


def message_of(row: Row, database: str) -> Message:
    """Return the message of a row as an object."""
    return instance_of(Message, row, database)


@cache
def _converted(model: type[models.Model]) -> tuple[tuple[int, Any], ...]:
    """Return the columns that a driver may return in another type than the field's, each with its index."""
    plain = (models.CharField, models.TextField, models.IntegerField)
    return tuple(
        (index, field.get_col(model._meta.db_table))
        for index, field in enumerate(model._meta.concrete_fields)
        if not isinstance(field, plain)
    )


def instance_of(model: type[M], row: Row, database: str) -> M:
    """Return the object of a whole row of ``model``."""
    connection = connections[database]
    values = list(row)
    for index, column in _converted(model):
        converters = connection.ops.get_db_converters(column) + column.output_field.get_db_converters(connection)
        for convert in converters:
            values[index] = convert(values[index], column, connection)
    return model.from_db(database, [field.attname for field in model._meta.concrete_fields], values)


_CHANGING = (*WINDOW_SETTINGS, *COUNTERS)


def lock(key: Key, known: Conversation | None = None) -> Conversation | None:
    """Lock a conversation until the transaction ends, and return it; None if it is missing.

    Args:
        key: of the conversation.
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
    """Return a conversation and the oldest ``size`` rows of its memory, at one moment; None if it is missing.

    Args:
        key: of the conversation.
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
    vars(conversation).update(known.__getstate__())  # as copy() does, by way of all that pickling needs
    conversation._state.db = database
    vars(conversation).update(zip(_CHANGING, changing, strict=True))
    for name in FLAGS:  # SQLite and MariaDB return 0 or 1
        setattr(conversation, name, bool(getattr(conversation, name)))
    conversation.note_stored(WINDOW_SETTINGS)
    return conversation


def read_size(conversation: Conversation) -> tuple[int, int]:
    """Return the numbers of messages and of characters of the memory."""
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
    """Return the memory in order: the columns that ``Statements.memory`` names, of each message."""

    def read() -> list[Row]:
        with connections[key.database].cursor() as cursor:
            cursor.execute(statements(key.database).memory[key.column], key.values)
            return list(cursor.fetchall())

    return retry(key.database, read)
