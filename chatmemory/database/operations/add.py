"""Add messages to a memory, and evict what no longer fits.

Usually, no lock is taken: read, plan, and write only if no other process has written. This takes fewer statements than
a lock, and locks the row only during the write. If another process has written, the messages are added under the lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import OperationalError, connections

from chatmemory.capabilities import hooks
from chatmemory.conf import setting
from chatmemory.core.exceptions import MemoryTooLargeError
from chatmemory.core.messages import ChatMessage
from chatmemory.core.window import Window
from chatmemory.database.change import Change, Target, already_stored, send_signals, update_counters, write
from chatmemory.database.connections import (
    has_collided,
    is_in_transaction,
    without_dead_connection,
    without_endless_wait,
)
from chatmemory.database.idempotency import check_key, recall, remember
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.operations.change_window import apply_window
from chatmemory.database.operations.plan import check_size, entries_of, oldest_entries, plan_addition
from chatmemory.database.rows import fits_one_statement, read_snapshot, save_at_once
from chatmemory.database.stored_windows import estimator_of, settings_of, window_of
from chatmemory.models import COUNTERS, WINDOW_SETTINGS


def add(
    target: Target,
    messages: Iterable[ChatMessage],
    *,
    native: NativeForms | None = None,
    window: Window | None = None,
    idempotency_key: str | None = None,
) -> Change:
    """Add ``messages`` one after the other.

    Args:
        target: the conversation.
        messages: the messages, of which all or none are added.
        native: another framework's forms of them.
        window: the new window of the memory; by default the row's window.
        idempotency_key: a second call with the same key returns the original result.

    Raises:
        Conversation.DoesNotExist: the conversation is missing, and must not be created.
        TypeError: an item is not a message.
        ValueError: databases cannot store a text or the key.
        IdempotencyConflictError: the key was already used with different messages.
        MemoryTooLargeError: the memory is, or would become, larger than the target allows.
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


# Usually, one or two messages are evicted, perhaps after a system message, or with the results of a call.
_OLDEST = 4


def try_to_add(target: Target, new: NewMessages, window: Window | None) -> Change | None:
    """Add ``new`` without a lock and return the change; return None if the lock is needed and nothing was done."""
    connection = connections[target.key.database]
    needs_lock = target.precondition or target.also or hooks("changed")
    if is_in_transaction(connection) or needs_lock or not setting("KEEP_HISTORY"):
        return None
    try:
        with without_dead_connection(connection), without_endless_wait(connection):
            return _add(target, new, window)
    except MemoryTooLargeError:
        return None  # the size may be of a later moment, so decide under the lock
    except OperationalError as error:
        if has_collided(error):
            return None
        raise


def _add(target: Target, new: NewMessages, window: Window | None) -> Change | None:
    snapshot = read_snapshot(target.key, target.instance, _OLDEST)
    if snapshot is None:
        return None
    conversation, oldest = snapshot
    bound = window or window_of(conversation)
    if any(getattr(conversation, name) != value for name, value in settings_of(bound, conversation).items()):
        return None
    guards = [getattr(conversation, name) for name in (*WINDOW_SETTINGS, *COUNTERS)]
    rows = new.rows(estimator_of(bound, conversation.model))
    # What is read from here on may be of a later moment. In this case, the guards prevent the write.
    entries = oldest_entries(conversation, bound, oldest) if len(oldest) == _OLDEST else entries_of(oldest, bound)
    added, evicted = plan_addition(conversation, bound, rows, entries)
    change = Change(conversation)
    if added:
        check_size(target.most, conversation, added, evicted)
        update_counters(change, added, evicted)
        gone = already_stored(evicted)
        if not fits_one_statement(added) or not save_at_once(conversation, added, gone, guards):
            return None
    target.update_instance(change)  # before receivers of signals use the caller's object
    if added:
        send_signals(change)
    return change
