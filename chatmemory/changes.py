"""Every change of a conversation's memory, each in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Unpack

from django.db.models import Q

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.counting import check_model, estimator_for, window_of
from chatmemory.eviction import Entry, EvictionReason
from chatmemory.hot_path import Key, read_oldest
from chatmemory.idempotency import check_key, recall, remember
from chatmemory.ledger import Change, Gone, Target, after_commit, rows_of, write
from chatmemory.memory import require_messages
from chatmemory.messages import ChatMessage
from chatmemory.models import MAX_LIMIT, WINDOW_SETTINGS, Conversation, WindowSettings
from chatmemory.native import NativeForms
from chatmemory.optimistic import try_to_add
from chatmemory.planning import (
    NewRows,
    count_beforehand,
    entries,
    entry,
    estimator_of,
    evicted,
    plan_addition,
    retained,
    settings_of,
)
from chatmemory.rewriting import plan_rewrite
from chatmemory.tokens import TokenCountEstimator, stored_count
from chatmemory.window import Window, check_kind, check_limit

__all__ = [
    "add",
    "apply_window_settings",
    "check_window_settings",
    "clear",
    "erase",
    "recount",
    "rewrite",
    "set_window",
]

# Rows of the window's old end that are read at once when something must go. Should that not do, the next chunks are
# larger, so that a system message anywhere in a large window is found in a few statements.
_CHUNK = 8
_GROWTH = 8


def _apply_window(conversation: Conversation, window: Window) -> None:
    """Make the row say what bounds the memory now, and its counts be by the window's estimator."""
    wanted = settings_of(window, conversation)
    estimator = estimator_of(window, conversation.model)
    changed = [name for name, value in wanted.items() if getattr(conversation, name) != value]
    for name in changed:
        setattr(conversation, name, wanted[name])
    if "model" in changed:
        _recount(conversation, estimator)
    if changed:
        # At once, for the change that this is part of may turn out to change nothing.
        conversation.save(using=conversation._state.db, update_fields=[*changed, "retained_tokens"])


def _recount(conversation: Conversation, estimator: TokenCountEstimator, since: int | None = None) -> bool:
    """Count what is retained again, and what was evicted after the version ``since``; whether any count is another."""
    counted = Q(evicted_in__isnull=True) if since is None else Q(evicted_in__isnull=True) | Q(evicted_in__gt=since)
    rows = list(rows_of(conversation).filter(counted))
    counts = [stored_count(row.message, estimator) for row in rows]
    changed = [row for row, count in zip(rows, counts, strict=True) if row.token_count != count]
    for row, count in zip(rows, counts, strict=True):
        row.token_count = count
    rows_of(conversation).bulk_update(changed, ["token_count"], batch_size=500)
    conversation.retained_tokens = sum(row.token_count for row in rows if row.is_retained)
    return bool(changed)


def _oldest_first(conversation: Conversation, window: Window) -> Iterator[Entry]:
    """The retained rows, in memory order, read in chunks as far as somebody asks."""
    start, size = 0, _CHUNK
    while chunk := read_oldest(conversation, start, size):
        yield from entries(chunk, window)
        start, size = start + len(chunk), size * _GROWTH


def _new_rows(
    target: Target, messages: list[ChatMessage], window: Window | None, native: NativeForms | None
) -> NewRows:
    known = target.instance.model if target.instance is not None else setting("DEFAULT_MODEL")
    return count_beforehand(messages, window, known, native)


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
        _apply_window(conversation, bound)
        oldest_first = _oldest_first(conversation, bound)
        added, gone = plan_addition(conversation, bound, new_rows(conversation, bound), oldest_first)
        if added:
            write(change, added, gone)
        if idempotency_key is not None:
            remember(change, idempotency_key, given)

    return target.change(work)


def rewrite(
    target: Target,
    messages: Iterable[ChatMessage],
    *,
    native: NativeForms | None = None,
    window: Window | None = None,
    from_foreign_memory: bool = False,
) -> Change:
    """Make ``messages`` the memory. Rows that stay are kept, the others are evicted, the new ones are inserted.

    Args:
        target: the conversation.
        messages: the new memory, in order.
        native: another framework's forms of them. A row stays only if it has an equal one.
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
    new_rows = _new_rows(target, given, window, native)

    def work(change: Change) -> None:
        conversation = change.conversation
        bound = window or window_of(conversation)
        _apply_window(conversation, bound)
        old = list(rows_of(conversation).retained())
        new = new_rows(conversation, bound)
        position = conversation.next_position
        plan = plan_rewrite(old, new, position, from_foreign_memory=from_foreign_memory, native=native)
        gone: list[Gone] = [(row, EvictionReason.REWRITTEN) for row in plan.left_out]
        if not from_foreign_memory:
            gone += evicted(bound.fit([entry(row, bound) for row in plan.memory]))
        if plan.inserted or gone:
            conversation.next_position += len(plan.inserted)
            rewritten = not from_foreign_memory or any(row.synthetic for row in plan.inserted)
            write(change, plan.inserted, gone, rewritten=rewritten)

    return target.change(work)


def clear(target: Target) -> Change:
    """Evict everything.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """

    def work(change: Change) -> None:
        rows = list(rows_of(change.conversation).retained())
        if rows:
            write(change, [], [(row, EvictionReason.CLEARED) for row in rows])
            after_commit(signals.memory_cleared, change.conversation)

    return target.change(work)


def erase(target: Target) -> None:
    """Delete the conversation and everything in it.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    known = target.instance
    if known is not None:
        # Programs that use stores lock by the memory ID. Locking by the primary key could deadlock with them on
        # MariaDB, whose DELETE locks the entry of the memory ID after the row.
        key = Key(target.key.database, "memory_id", (known.memory_id, known.owner_key))
        target = replace(target, key=key, instance=None)

    def work(change: Change) -> None:
        if known is not None and change.conversation.pk != known.pk:
            raise Conversation.DoesNotExist("the conversation has been erased")
        change.conversation.delete(using=target.key.database)

    target.change(work)


def check_window_settings(settings: WindowSettings) -> None:
    """Raise if a conversation cannot have these settings.

    Raises:
        TypeError: a setting that does not exist.
        ValueError: no such window, limit or model.
    """
    unknown = settings.keys() - set(WINDOW_SETTINGS)
    if unknown:
        raise TypeError(f"unknown settings of a window: {', '.join(sorted(unknown))}; use {', '.join(WINDOW_SETTINGS)}")
    window, limit, model = settings.get("window"), settings.get("limit"), settings.get("model")
    if window is not None:
        check_kind(window)
    if limit is not None and check_limit(limit, "limit") > MAX_LIMIT:
        raise ValueError(f"limit must be at most {MAX_LIMIT}, but is: {limit}")
    if model is not None:
        check_model(model)


def apply_window_settings(conversation: Conversation, settings: WindowSettings) -> bool:
    """Set the given columns of ``conversation``, unsaved; return whether another model counts its tokens then."""
    counted_by = conversation.model
    for name, value in settings.items():
        if value is not None:
            setattr(conversation, name, value)
    return bool(conversation.model != counted_by)


def set_window(target: Target, **settings: Unpack[WindowSettings]) -> Change:
    """Change the given settings of the window, and evict what no longer fits.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        TypeError: a setting that does not exist.
        ValueError: no such window, limit or model.
    """
    check_window_settings(settings)

    def work(change: Change) -> None:
        conversation = change.conversation
        if apply_window_settings(conversation, settings):
            _recount(conversation, estimator_for(conversation.model))
        conversation.save(using=conversation._state.db, update_fields=WINDOW_SETTINGS)
        bound = window_of(conversation)
        memory = retained(conversation, bound, _oldest_first(conversation, bound))
        memory.evict()
        write(change, [], evicted(memory))

    return target.change(work)


def recount(target: Target, model: str | None = None, *, since: int) -> Change:
    """Count the retained messages again, and those evicted after the version ``since``; evict what no longer fits.

    Args:
        target: the conversation.
        model: whose tokens are counted from now on; by default that of the row.
        since: the evicted messages up to this version have been counted.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """

    def work(change: Change) -> None:
        conversation = change.conversation
        wanted = model if model is not None else conversation.model
        differs = _recount(conversation, estimator_for(wanted), since)
        if not differs and wanted == conversation.model:
            return
        conversation.model = wanted
        # The memory of a version never changes.
        conversation.version += 1
        conversation.save(using=conversation._state.db, update_fields=["model", "retained_tokens", "version"])
        bound = window_of(conversation)
        memory = retained(conversation, bound, _oldest_first(conversation, bound))
        memory.evict()
        if gone := evicted(memory):
            # Nobody was active: a purge by age must not take it for that.
            row = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
            active = row.values_list("updated_at", flat=True).get()
            write(change, [], gone)
            row.update(updated_at=active)
            conversation.updated_at = active

    return target.change(work)
