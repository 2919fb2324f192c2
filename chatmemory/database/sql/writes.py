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

from chatmemory.core.eviction import EvictionReason
from chatmemory.database.key import connection_of, prepared_id
from chatmemory.database.sql.raw_rows import COLUMNS, Row
from chatmemory.database.sql.statements import INSERTED, statements
from chatmemory.models import COUNTERS, Conversation, Message

__all__ = ["MOST_ROWS", "save", "save_at_once"]

MOST_ROWS = 50
"""The most rows that :func:`save` takes: SQLite bounds the parameters of a statement."""

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
        added: unsaved rows with their places.
        evicted: stored rows.
        guards: the values that :data:`WINDOW_SETTINGS` and :data:`COUNTERS` must still have.

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
        if added or evicted:
            rows = _rows(conversation, added, evicted, connection, key, now)
            values = ", ".join([f"({', '.join(['%s'] * len(INSERTED))})"] * len(rows))
            statement = sql.insert + values + (sql.upsert if evicted else "") + sql.returning
            cursor.execute(statement, [value for row in rows for value in row])
            _set_primary_keys(added, cursor.fetchall() if sql.returning else [], database)
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
    _set_primary_keys(added, found, database)
    return bool(found)


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


def _set_primary_keys(added: Sequence[Message], written: Sequence[Row], database: str) -> None:
    keys: dict[Any, Any] = dict(written)
    for row in added:
        row.pk = keys.get(row.position)
        row._state.adding, row._state.db = False, database
