"""Every change of a conversation's memory, each in one transaction."""

from __future__ import annotations

from collections.abc import Iterable

from chatmemory.core.messages import ChatMessage, require_messages
from chatmemory.core.window import Window
from chatmemory.database.change import Change
from chatmemory.database.estimators import window_of
from chatmemory.database.idempotency import check_key, recall, remember
from chatmemory.database.native_forms import NativeForms
from chatmemory.database.operations.add_without_lock import try_to_add
from chatmemory.database.operations.change_window import apply_window
from chatmemory.database.operations.new_rows import _new_rows
from chatmemory.database.operations.plan import oldest_entries, plan_addition
from chatmemory.database.target import Target
from chatmemory.database.write import write

__all__ = ["add"]


def add(
    target: Target,
    messages: Iterable[ChatMessage],
    *,
    native: NativeForms | None = None,
    window: Window | None = None,
    idempotency_key: str | None = None,
) -> Change:
    """Add ``messages``, as if one after the other.

    Args:
        target: the conversation.
        messages: all or none of them are added.
        native: another framework's forms of them.
        window: bounds the memory from now on; by default what the row says.
        idempotency_key: a second call with it gives the account of the first.

    Raises:
        Conversation.DoesNotExist: the conversation is missing, and must not be made.
        TypeError: one of ``messages`` is no message.
        ValueError: a text or key that no database can hold.
        IdempotencyConflictError: the key came before, with other messages.
    """
    given = require_messages(messages)
    if idempotency_key is not None:
        check_key(idempotency_key)
    new_rows = _new_rows(target, given, window, native)
    if idempotency_key is None:
        change = try_to_add(target, new_rows, window)
        if change is not None:
            return change

    def work(change: Change) -> None:
        conversation = change.conversation
        if idempotency_key is not None and recall(change, idempotency_key, given):
            return
        bound = window or window_of(conversation)
        apply_window(conversation, bound)
        oldest_first = oldest_entries(conversation, bound)
        added, gone = plan_addition(conversation, bound, new_rows(conversation, bound), oldest_first)
        if added:
            write(change, added, gone)
        if idempotency_key is not None:
            remember(change, idempotency_key, given)

    return target.change(work)
