"""Reading a memory from the database: one statement, which tokenises nothing."""

from __future__ import annotations

from chatmemory.conf import setting
from chatmemory.counting import estimator_for, model_of
from chatmemory.eviction import Entry
from chatmemory.managers import MessageQuerySet
from chatmemory.messages import ChatMessage
from chatmemory.models import Conversation, Message
from chatmemory.rows import from_columns
from chatmemory.tokens import stored_count
from chatmemory.window import Window, WindowKind

__all__ = ["read_window"]


def read_rows(conversation: Conversation) -> list[Message]:
    """The rows of a conversation's memory, in order; of another version than its row said only if those are deleted.

    Then ``conversation`` is read anew, so that it says what it has.
    """
    while True:
        rows = list(conversation.messages.in_memory_at(conversation.version))
        if setting("KEEP_HISTORY"):
            return rows
        version = conversation.version
        conversation.refresh_from_db()
        if conversation.version == version:
            return rows


def read_window(retained: MessageQuerySet, window: Window | None = None) -> list[ChatMessage]:
    """The messages of one conversation's retained rows that fit ``window``, by default that of their conversation.

    A window may have become smaller since the last change; the view is trimmed then, and nothing is written.
    """
    columns = list(
        retained.values_list(
            "type",
            "text",
            "payload",
            "token_count",
            "conversation__model",
            "conversation__window",
            "conversation__limit",
        )
    )
    if not columns:
        return []
    model, kind, limit = columns[0][4:]
    if window is None:
        window = Window(kind=WindowKind(kind), limit=limit, estimator=estimator_for(model))
    entries = [Entry(from_columns(type, text, payload), 1) for type, text, payload, *_ in columns]
    if window.kind is WindowKind.TOKENS and window.estimator is not None:
        is_counted = model == model_of(window.estimator)
        for entry, row in zip(entries, columns, strict=True):
            entry.cost = row[3] if is_counted else stored_count(entry.message, window.estimator)
    return [entry.message for entry in window.fit(entries).entries()]
