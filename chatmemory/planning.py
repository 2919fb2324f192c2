"""What a change of a memory would do, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from chatmemory.counting import estimator_for, model_of
from chatmemory.eviction import Entry, Retained
from chatmemory.hot_path import Row, essentials
from chatmemory.ledger import Gone
from chatmemory.messages import ChatMessage, ChatMessageType
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.native import NativeForms
from chatmemory.rows import from_columns, to_columns
from chatmemory.sequence import ORDER_STEP
from chatmemory.tokens import TokenCountEstimator
from chatmemory.window import Window, WindowKind

__all__ = [
    "NewRows",
    "count_beforehand",
    "entries",
    "entry",
    "estimator_of",
    "evicted",
    "plan_addition",
    "retained",
    "settings_of",
]

NewRows = Callable[[Conversation, Window], list[Message]]
"""Gives new rows, counted for a conversation under a window, that have no place yet; others at each call."""


def estimator_of(window: Window | None, model: str) -> TokenCountEstimator:
    """The window's own estimator, or else the one for ``model``."""
    return window.estimator if window is not None and window.estimator is not None else estimator_for(model)


def settings_of(window: Window, conversation: Conversation) -> dict[str, object]:
    """What the columns of ``conversation`` are if ``window`` bounds it."""
    return {
        "window": window.kind.value,
        "limit": min(window.limit, MAX_LIMIT),
        "always_keep_system_message_first": window.always_keep_system_message_first,
        "model": model_of(estimator_of(window, conversation.model)),
    }


def count_beforehand(
    messages: list[ChatMessage], window: Window | None, model: str, native: NativeForms | None = None
) -> NewRows:
    """Count ``messages`` now, by the model that most likely is right.

    Counting is what takes time, so it comes before any lock.

    Args:
        native: another framework's forms of them.

    Raises:
        ValueError: a text that no database can hold.
    """
    columns = [to_columns(message) for message in messages]
    if native is not None:
        for values, text in zip(columns, native.columns(), strict=True):
            values["native"] = text

    def count(estimator: TokenCountEstimator) -> list[int]:
        return [estimator.estimate_token_count_in_message(message) for message in messages]

    estimator = estimator_of(window, model)
    counted = {model_of(estimator): count(estimator)}

    def rows(conversation: Conversation, bound: Window) -> list[Message]:
        if conversation.model not in counted:
            counted[conversation.model] = count(estimator_of(bound, conversation.model))
        tokens = counted[conversation.model]
        return [Message(**values, token_count=number) for values, number in zip(columns, tokens, strict=True)]

    return rows


def entry(row: Message, window: Window) -> Entry:
    """A row as part of a memory."""
    return Entry(row.message, row.token_count if window.kind is WindowKind.TOKENS else 1, row)


def entries(rows: Iterable[Row], window: Window) -> Iterator[Entry]:
    """Stored rows as parts of a memory."""
    tokens = window.kind is WindowKind.TOKENS
    for row in rows:
        type, text, payload, token_count = essentials(row)
        yield Entry(from_columns(type, text, payload), token_count if tokens else 1, row)


def retained(conversation: Conversation, window: Window, oldest_first: Iterable[Entry]) -> Retained:
    """The memory of a conversation as its counters have it, whose entries are read as far as they are needed."""
    tokens = window.kind is WindowKind.TOKENS
    total = conversation.retained_tokens + window.overhead if tokens else conversation.retained_count
    return Retained(oldest_first, total=total, limit=window.limit)


def evicted(memory: Retained) -> list[Gone]:
    """The rows that had to go."""
    return [(entry.row, reason) for entry, reason in memory.evicted]


def plan_addition(
    conversation: Conversation, window: Window, rows: list[Message], oldest_first: Iterable[Entry]
) -> tuple[list[Message], list[Gone]]:
    """Add ``rows`` as if one after the other, and give those that are added their places.

    Returns:
        the rows that are added, for an equal system message adds nothing, and what had to go.
    """
    memory = retained(conversation, window, oldest_first)
    first = window.always_keep_system_message_first
    for row in rows:
        memory.add(entry(row, window), system_message_first=first)
    added = [entry.row for entry in memory.added]
    for row in added:
        row.position = conversation.next_position
        conversation.next_position += 1
        to_front = first and row.type == ChatMessageType.SYSTEM
        row.memory_order = (-row.position if to_front else row.position) * ORDER_STEP
    return added, evicted(memory)
