"""Plan a change of a memory, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chatmemory.core.eviction import Entry, Retained
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.change import Gone
from chatmemory.database.sql.raw_rows import Row, message_columns
from chatmemory.database.sql.reads import read_oldest
from chatmemory.models import ORDER_STEP, Conversation, Message
from chatmemory.models.message_columns import from_columns

__all__ = ["entries_of", "entry_of", "evicted_rows", "memory_of", "placed_rows", "plan_addition"]

# The rows of the window's old end that are read at once when something must go. If they are not enough, the next chunks
# are larger, so that a system message anywhere in a large window is found in a few statements.
_CHUNK = 8
_GROWTH = 8


def entry_of(row: Message, window: Window) -> Entry:
    """Return a row as an entry of a memory."""
    return Entry(row.message, row.token_count if window.kind is WindowKind.TOKENS else 1, row)


def entries_of(rows: Iterable[Row], window: Window) -> Iterator[Entry]:
    """Return stored rows as entries of a memory."""
    tokens = window.kind is WindowKind.TOKENS
    for row in rows:
        type, text, payload, token_count = message_columns(row)
        yield Entry(from_columns(type, text, payload), token_count if tokens else 1, row)


def memory_of(conversation: Conversation, window: Window, oldest_first: Iterable[Entry]) -> Retained:
    """Return the memory that the counters of a conversation describe. Its entries are read only as far as needed."""
    tokens = window.kind is WindowKind.TOKENS
    total = conversation.retained_tokens + window.overhead if tokens else conversation.retained_count
    return Retained(oldest_first, total=total, limit=window.limit)


def evicted_rows(memory: Retained) -> list[Gone]:
    """Return the rows that left ``memory``, each with the reason."""
    return [(entry.row, reason) for entry, reason in memory.evicted]


def plan_addition(
    conversation: Conversation, window: Window, rows: list[Message], oldest_first: Iterable[Entry]
) -> tuple[list[Message], list[Gone]]:
    """Plan to add ``rows`` as if one after the other, and give those that are added their places.

    Returns:
        the rows that are added (a system message equal to the present one is not) and the rows that are evicted.
    """
    memory = memory_of(conversation, window, oldest_first)
    for row in rows:
        memory.add(entry_of(row, window), system_message_first=window.always_keep_system_message_first)
    added = placed_rows(memory, conversation, window)
    conversation.next_position += len(added)
    return added, evicted_rows(memory)


def placed_rows(memory: Retained, conversation: Conversation, window: Window) -> list[Message]:
    """Return the rows that were added to ``memory``, with their places."""
    rows = [entry.row for entry in memory.added]
    for position, row in enumerate(rows, conversation.next_position):
        to_front = window.always_keep_system_message_first and row.type == ChatMessageType.SYSTEM
        row.position = position
        row.memory_order = (-position if to_front else position) * ORDER_STEP
    return rows


def oldest_entries(conversation: Conversation, window: Window) -> Iterator[Entry]:
    """Return the retained rows as entries, in memory order. They are read in chunks, as far as they are needed."""
    start, size = 0, _CHUNK
    while chunk := read_oldest(conversation, start, size):
        yield from entries_of(chunk, window)
        start, size = start + len(chunk), size * _GROWTH
