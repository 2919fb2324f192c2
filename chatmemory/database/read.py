"""Read a memory from the database: one statement, which tokenises nothing."""

from __future__ import annotations

from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens import stored_count
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.key import Key
from chatmemory.database.sql.reads import Row, read_memory
from chatmemory.database.stored_windows import model_name_of, window_with
from chatmemory.models import WINDOW_SETTINGS, Origin
from chatmemory.models.message import from_columns, is_pin_open

# In a row of Statements.memory.
_MESSAGE = slice(0, 3)
_TOKENS, _ADDED_IN, _ORIGIN, _PINS, _PREFIX_VERSION = range(3, 8)
_SETTINGS = slice(8, None)


def read_window(key: Key, window: Window | None = None) -> list[ChatMessage]:
    """Return the messages of a conversation's memory that fit ``window``, by default its own; none if it is missing.

    A window may have become smaller since the last change. Then the result is trimmed, and nothing is written.
    """
    messages, _ = _fit(read_memory(key), window)
    return messages


def read_fresh_window(key: Key) -> tuple[list[ChatMessage], list[int]]:
    """Return what :func:`read_window` returns, and the indexes of the messages before which nothing has changed."""
    rows = read_memory(key)
    messages, is_whole = _fit(rows, None)
    if not is_whole:
        return messages, []
    return messages, [index for index, row in enumerate(rows) if row[_ADDED_IN] > row[_PREFIX_VERSION]]


def _fit(rows: list[Row], window: Window | None) -> tuple[list[ChatMessage], bool]:
    """Return the messages of ``rows`` that fit, and whether nothing had to leave."""
    if not rows:
        return [], True
    settings = dict(zip(WINDOW_SETTINGS, rows[0][_SETTINGS], strict=True))
    window = window or window_with(settings)
    messages = [from_columns(*row[_MESSAGE]) for row in rows]
    costs = [1] * len(rows)
    if window.kind is WindowKind.TOKENS and window.estimator is not None:
        if settings["model"] == model_name_of(window.estimator):
            costs = [row[_TOKENS] for row in rows]
        else:
            costs = [stored_count(message, window.estimator) for message in messages]
    if window.overhead + sum(costs) <= window.limit:
        return messages, True
    entries = [
        Entry(
            message,
            cost,
            pinned=is_pin_open(row[_PINS]),
            is_placeholder=row[_ORIGIN] == Origin.CLEARED,
            is_summary=row[_ORIGIN] == Origin.SUMMARY,
        )
        for message, cost, row in zip(messages, costs, rows, strict=True)
    ]
    retained = Retained.fit(entries, window)
    return [entry.message for entry in retained.entries()], not retained.evicted
