"""Read a memory from the database: one statement, which tokenises nothing."""

from __future__ import annotations

from chatmemory.conf import setting
from chatmemory.core.eviction import Entry
from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens import stored_count
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.batches import rows_of
from chatmemory.database.estimators import estimator_for, model_name_of
from chatmemory.database.key import Key
from chatmemory.database.sql.raw_rows import Row
from chatmemory.database.sql.reads import read_memory
from chatmemory.models import Conversation, Message
from chatmemory.models.message_columns import from_columns

__all__ = ["read_fresh_window", "read_rows", "read_window"]

_TOKENS, _ADDED_IN, _PREFIX_VERSION = 3, 4, 8  # in a row of Statements.memory


def read_rows(conversation: Conversation) -> list[Message]:
    """Return the rows of a conversation's memory, in order.

    They are of the version that ``conversation`` says. Where evicted rows are deleted, that version may be gone: then
    ``conversation`` is read again, and the rows are of its new version.
    """
    while True:
        rows = list(rows_of(conversation).in_memory_at(conversation.version))
        if setting("KEEP_HISTORY"):
            return rows
        version = conversation.version
        conversation.refresh_from_db(using=conversation._state.db)
        if conversation.version == version:
            return rows


def read_window(key: Key, window: Window | None = None) -> list[ChatMessage]:
    """Return the messages of a conversation's memory that fit ``window``, by default its own; none if it is missing.

    A window may have become smaller since the last change. Then the result is trimmed, and nothing is written.
    """
    return _fit(read_memory(key), window)


def read_fresh_window(key: Key) -> tuple[list[ChatMessage], list[int]]:
    """Return what :func:`read_window` returns, and the indexes of the messages before which nothing has changed."""
    rows = read_memory(key)
    messages = _fit(rows, None)
    if len(messages) < len(rows):
        return messages, []
    return messages, [index for index, row in enumerate(rows) if row[_ADDED_IN] > row[_PREFIX_VERSION]]


def _fit(rows: list[Row], window: Window | None) -> list[ChatMessage]:
    if not rows:
        return []
    model, kind, limit = rows[0][5:8]
    if window is None:
        window = Window(kind=WindowKind(kind), limit=limit, estimator=estimator_for(model))
    messages = [from_columns(*row[:3]) for row in rows]
    costs = [1] * len(rows)
    if window.kind is WindowKind.TOKENS and window.estimator is not None:
        if model == model_name_of(window.estimator):
            costs = [row[_TOKENS] for row in rows]
        else:
            costs = [stored_count(message, window.estimator) for message in messages]
    if window.overhead + sum(costs) <= window.limit:
        return messages
    return [entry.message for entry in window.fit(list(map(Entry, messages, costs))).entries()]
