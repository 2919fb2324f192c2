"""The hot writes: new rows, evictions and counters of one change, in SQL that is built once.

The ORM would build such queries, and objects of whole rows, anew each time, which takes several times as long as the
database needs. Rarer and larger writes go through the ORM.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.core.entries import EvictionReason
from chatmemory.database.key import connection_of, prepared_id
from chatmemory.database.reading import chunks
from chatmemory.database.sql.reads import COLUMNS, Row, primary_key, text_columns
from chatmemory.database.sql.statements import INSERTED, statements
from chatmemory.models import COUNTERS, Conversation, Message

_MOST_ROWS = 50  # SQLite bounds the parameters of a statement

CHARS_AT_ONCE = 1_000_000
"""The most characters that one statement writes."""

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
    """Insert new rows, mark stored ones as evicted, and write the counters, within the caller's transaction.

    The conversation is locked, so that a row that conflicts with a position is the very row of ``evicted``.

    Args:
        conversation: locked, unless there are ``guards``.
        added: unsaved rows with their places, at most as many as fit one statement.
        evicted: stored rows. If they fit the statement of ``added``, too, they need no statement of their own.
        guards: the values that :data:`~chatmemory.models.WINDOW_SETTINGS` and :data:`~chatmemory.models.COUNTERS` must
            still have.

    Returns:
        False if they have others; then nothing was written.
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
    """Save with ``guards`` in a transaction of its own, in one statement where the database can; see :func:`save`."""
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
    """Return whether these rows, as long as they are, can be written in one statement."""
    if len(added) + len(evicted) > _MOST_ROWS:
        return False
    return sum(map(chars_of, added)) + sum(chars_of(row) for row, _ in evicted) <= CHARS_AT_ONCE


def chars_of(row: Row | Message) -> int:
    """Return the number of characters of the columns that may be long; more than a statement has if it is unknown."""
    if isinstance(row, Message) and row.get_deferred_fields():
        return CHARS_AT_ONCE + 1  # its text was not read, because it may be long
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
    """Return the primary key of a row."""
    return row.pk if isinstance(row, Message) else primary_key(row)


def _set_primary_keys(added: Sequence[Message], written: Sequence[Row], database: str) -> None:
    keys: dict[Any, Any] = dict(written)
    for row in added:
        row.pk = keys.get(row.position)
        row._state.adding, row._state.db = False, database
