"""Add messages to a memory, and evict what no longer fits.

Of two writers at the same moment the slower one adds under the lock: see :mod:`.add_without_lock`.
"""

from __future__ import annotations

from collections.abc import Iterable

from chatmemory.core.messages import ChatMessage
from chatmemory.core.window import Window
from chatmemory.database.change import Change
from chatmemory.database.estimators import estimator_of, window_of
from chatmemory.database.idempotency import check_key, recall, remember
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.operations.add_without_lock import try_to_add
from chatmemory.database.operations.change_window import apply_window
from chatmemory.database.operations.plan import check_size, oldest_entries, plan_addition
from chatmemory.database.target import Target
from chatmemory.database.write_change import write

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
        window: bounds the memory from now on; by default the row's window does.
        idempotency_key: a second call with it returns the account of the first.

    Raises:
        Conversation.DoesNotExist: the conversation is missing, and must not be made.
        TypeError: one of ``messages`` is no message.
        ValueError: a text or key that no database can hold.
        IdempotencyConflictError: the key came before, with other messages.
        MemoryTooLargeError: the memory is, or would be, larger than the target says.
    """
    if idempotency_key is not None:
        check_key(idempotency_key)
    new = NewMessages.of(messages, native)
    new.token_counts(estimator_of(window, target.likely_model))  # before any lock
    if idempotency_key is None:
        change = try_to_add(target, new, window)
        if change is not None:
            return change

    def work(change: Change) -> None:
        conversation = change.conversation
        if idempotency_key is not None and recall(change, idempotency_key, new.fingerprint):
            return
        bound = window or window_of(conversation)
        apply_window(conversation, bound)
        rows = new.rows(estimator_of(bound, conversation.model))
        added, gone = plan_addition(conversation, bound, rows, oldest_entries(conversation, bound))
        if added:
            check_size(target.most, conversation, added, gone)
            write(change, added, gone)
        if idempotency_key is not None:
            remember(change, idempotency_key, new.fingerprint)

    return target.change(work)
