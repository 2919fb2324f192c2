"""Every change of a conversation's memory, each in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.counting import check_model, estimator_for, model_of, new_rows, window_of
from chatmemory.eviction import Entry, EvictionReason, Retained
from chatmemory.idempotency import check_key, recall, remember
from chatmemory.ledger import Change, Target, after_commit, rows_of, write
from chatmemory.memory import require_messages
from chatmemory.messages import ChatMessage, SystemMessage
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.rewriting import plan_rewrite
from chatmemory.sequence import ORDER_STEP
from chatmemory.tokens import TokenCountEstimator, stored_count
from chatmemory.window import Window, WindowKind, check_kind, check_limit

__all__ = ["add", "clear", "erase", "rewrite", "set_window"]

# Rows of the window's old end that are read at once when something must go. Should that not do, the next chunks are
# larger, so that a system message anywhere in a large window is found in a few statements.
_CHUNK = 16
_GROWTH = 8


def _apply_window(conversation: Conversation, window: Window) -> None:
    """Make the row say what bounds the memory now, and its counts be by the window's estimator."""
    estimator = _estimator(window, conversation.model)
    wanted = {
        "window": window.kind.value,
        "limit": min(window.limit, MAX_LIMIT),
        "always_keep_system_message_first": window.always_keep_system_message_first,
        "model": model_of(estimator),
    }
    changed = [name for name, value in wanted.items() if getattr(conversation, name) != value]
    for name in changed:
        setattr(conversation, name, wanted[name])
    if "model" in changed:
        _recount(conversation, estimator)
    if changed:
        # At once, for the change that this is part of may turn out to change nothing.
        conversation.save(update_fields=[*changed, "retained_tokens"])


def _recount(conversation: Conversation, estimator: TokenCountEstimator) -> None:
    rows = list(rows_of(conversation).retained())
    for row in rows:
        row.token_count = stored_count(row.message, estimator)
    Message.objects.using(conversation._state.db).bulk_update(rows, ["token_count"], batch_size=500)
    conversation.retained_tokens = sum(row.token_count for row in rows)


def _entry(row: Message, window: Window) -> Entry:
    return Entry(row.message, row.token_count if window.kind is WindowKind.TOKENS else 1, row)


def _oldest_first(conversation: Conversation, window: Window) -> Iterator[Entry]:
    """The retained rows, in memory order, read in chunks as far as somebody asks."""
    rows = rows_of(conversation).retained()
    start, size = 0, _CHUNK
    while chunk := list(rows[start : start + size]):
        yield from (_entry(row, window) for row in chunk)
        start, size = start + size, size * _GROWTH


def _retained(conversation: Conversation, window: Window, entries: Iterable[Entry]) -> Retained:
    tokens = window.kind is WindowKind.TOKENS
    total = conversation.retained_tokens + window.overhead if tokens else conversation.retained_count
    return Retained(entries, total=total, limit=window.limit)


def _estimator(window: Window | None, model: str) -> TokenCountEstimator:
    return window.estimator if window is not None and window.estimator is not None else estimator_for(model)


def _counted_beforehand(
    target: Target, messages: list[ChatMessage], window: Window | None
) -> tuple[TokenCountEstimator, list[Message]]:
    """New rows. Counting is what takes time, so it comes before the lock, by the model that most likely is right."""
    known = target.instance.model if target.instance is not None else setting("DEFAULT_MODEL")
    estimator = _estimator(window, known)
    return estimator, new_rows(messages, estimator)


def add(
    target: Target,
    messages: Iterable[ChatMessage],
    *,
    window: Window | None = None,
    idempotency_key: str | None = None,
) -> Change:
    """Add ``messages``, as if one after the other.

    Args:
        target: the conversation.
        messages: all or none of them are added.
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
    estimator, rows = _counted_beforehand(target, given, window)
    with target.change() as change:
        conversation = change.conversation
        if idempotency_key is not None and recall(change, idempotency_key, given):
            return change
        bound = window or window_of(conversation)
        _apply_window(conversation, bound)
        if model_of(estimator) != conversation.model:
            rows = new_rows(given, _estimator(bound, conversation.model))
        retained = _retained(conversation, bound, _oldest_first(conversation, bound))
        for row in rows:
            retained.add(_entry(row, bound), system_message_first=bound.always_keep_system_message_first)
        added = [entry.row for entry in retained.added]
        for row in added:
            row.position = conversation.next_position
            conversation.next_position += 1
            first = bound.always_keep_system_message_first and isinstance(row.message, SystemMessage)
            row.memory_order = (-row.position if first else row.position) * ORDER_STEP
        if added:
            write(change, added, [(entry.row, reason) for entry, reason in retained.evicted])
        if idempotency_key is not None:
            remember(change, idempotency_key, given)
    return change


def rewrite(
    target: Target, messages: Iterable[ChatMessage], *, window: Window | None = None, from_foreign_memory: bool = False
) -> Change:
    """Make ``messages`` the memory. Rows that stay are kept, the others are evicted, the new ones are inserted.

    Args:
        target: the conversation.
        messages: the new memory, in order.
        window: bounds the memory from now on; by default what the row says. What does not fit it is evicted.
        from_foreign_memory: this is how a memory adds that has a window of its own. Nothing is evicted but what
            ``messages`` leave out; new system messages, and new messages after all that stay, were said. Otherwise
            all that is new is synthetic.

    Raises:
        Conversation.DoesNotExist: the conversation is missing, and must not be made.
        TypeError: one of ``messages`` is no message.
        ValueError: a text that no database can hold.
    """
    given = require_messages(messages)
    estimator, new = _counted_beforehand(target, given, window)
    with target.change() as change:
        conversation = change.conversation
        bound = window or window_of(conversation)
        _apply_window(conversation, bound)
        old = list(rows_of(conversation).retained())
        if model_of(estimator) != conversation.model:
            new = new_rows(given, _estimator(bound, conversation.model))
        plan = plan_rewrite(old, new, conversation.next_position, from_foreign_memory=from_foreign_memory)
        evicted = [(row, EvictionReason.REWRITTEN) for row in plan.left_out]
        if not from_foreign_memory:
            retained = bound.fit([_entry(row, bound) for row in plan.memory])
            evicted += [(entry.row, reason) for entry, reason in retained.evicted]
        if plan.inserted or evicted:
            conversation.next_position += len(plan.inserted)
            rewritten = not from_foreign_memory or any(row.synthetic for row in plan.inserted)
            write(change, plan.inserted, evicted, rewritten=rewritten)
    return change


def clear(target: Target) -> Change:
    """Evict everything.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    with target.change() as change:
        rows = list(rows_of(change.conversation).retained())
        if rows:
            write(change, [], [(row, EvictionReason.CLEARED) for row in rows])
            after_commit(signals.memory_cleared, change.conversation)
    return change


def erase(target: Target) -> None:
    """Delete the conversation and everything in it.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    conversation = target.instance
    if conversation is not None:
        # Programs that use stores lock by the memory ID. Locking by the primary key could deadlock with them on
        # MariaDB, whose DELETE locks the entry of the memory ID after the row.
        same = {"memory_id": conversation.memory_id, "owner_key": conversation.owner_key}
        target = replace(target, queryset=Conversation.objects.using(target.queryset.db).filter(**same))
    with target.change() as change:
        if conversation is not None and change.conversation.pk != conversation.pk:
            raise Conversation.DoesNotExist("the conversation has been erased")
        change.conversation.delete()


def set_window(
    target: Target,
    *,
    window: str | None = None,
    limit: int | None = None,
    model: str | None = None,
    always_keep_system_message_first: bool | None = None,
) -> Change:
    """Change what is given of the window, and evict what no longer fits.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        ValueError: no such window, limit or model.
    """
    if window is not None:
        check_kind(window)
    if limit is not None and check_limit(limit, "limit") > MAX_LIMIT:
        raise ValueError(f"limit must be at most {MAX_LIMIT}, but is: {limit}")
    if model is not None:
        check_model(model)
    with target.change() as change:
        conversation = change.conversation
        if window is not None:
            conversation.window = window
        if limit is not None:
            conversation.limit = limit
        if always_keep_system_message_first is not None:
            conversation.always_keep_system_message_first = always_keep_system_message_first
        if model is not None and model != conversation.model:
            conversation.model = model
            _recount(conversation, estimator_for(model))
        bound = window_of(conversation)
        retained = _retained(conversation, bound, _oldest_first(conversation, bound))
        retained.evict()
        write(change, [], [(entry.row, reason) for entry, reason in retained.evicted])
    return change
