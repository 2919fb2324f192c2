"""The hot reads: the locked conversation, its snapshot with the oldest rows, and the memory."""

from __future__ import annotations

from django.db import connections

from chatmemory.database.key import Key, connection_of, prepared_id
from chatmemory.database.retry import retry
from chatmemory.database.sql.raw_rows import Row, instance_of, primary_key
from chatmemory.database.sql.statements import statements
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation
from chatmemory.models.window_settings import FLAGS

__all__ = ["lock", "read_memory", "read_oldest", "read_size", "read_snapshot"]

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
