"""Every change of a conversation's memory, each in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.counting import estimator_for, model_of
from chatmemory.eviction import Entry, EvictionReason, Retained
from chatmemory.exceptions import IdempotencyConflictError
from chatmemory.ledger import Change, Target, after_commit, atomic, write
from chatmemory.memory import require_messages
from chatmemory.messages import ChatMessage, SystemMessage
from chatmemory.models import Conversation, Message
from chatmemory.rewriting import plan_rewrite
from chatmemory.rows import to_columns
from chatmemory.sequence import ORDER_STEP
from chatmemory.tokens import TokenCountEstimator
from chatmemory.window import Window, WindowKind, check_limit

__all__ = ["add", "clear", "rewrite", "set_window"]

# Rows of the window's old end that are read at once when something must go.
_CHUNK = 16


def _window_of(conversation: Conversation) -> Window:
    return Window(
        kind=WindowKind(conversation.window),
        limit=conversation.limit,
        estimator=estimator_for(conversation.model),
        always_keep_system_message_first=conversation.always_keep_system_message_first,
    )


def _apply_window(conversation: Conversation, window: Window) -> None:
    """Make the row say what bounds the memory now, and its counts be by the window's estimator."""
    conversation.window = window.kind.value
    conversation.limit = window.limit
    conversation.always_keep_system_message_first = window.always_keep_system_message_first
    estimator = _estimator(window, conversation.model)
    if model_of(estimator) != conversation.model:
        conversation.model = model_of(estimator)
        _recount(conversation, estimator)


def _recount(conversation: Conversation, estimator: TokenCountEstimator) -> None:
    rows = list(conversation.messages.retained())
    for row in rows:
        row.token_count = estimator.estimate_token_count_in_message(row.message)
    Message.objects.bulk_update(rows, ["token_count"], batch_size=500)
    conversation.retained_tokens = sum(row.token_count for row in rows)
    # At once, for the change that this is part of may turn out to change nothing.
    conversation.save(update_fields=["model", "retained_tokens"])


def _entry(row: Message, window: Window) -> Entry:
    return Entry(row.message, row.token_count if window.kind is WindowKind.TOKENS else 1, row)


def _oldest_first(conversation: Conversation, window: Window) -> Iterator[Entry]:
    """The retained rows, in memory order, read in chunks as far as somebody asks."""
    rows = conversation.messages.retained()
    start = 0
    while chunk := list(rows[start : start + _CHUNK]):
        yield from (_entry(row, window) for row in chunk)
        start += len(chunk)


def _retained(conversation: Conversation, window: Window, entries: Iterable[Entry]) -> Retained:
    tokens = window.kind is WindowKind.TOKENS
    total = conversation.retained_tokens + window.overhead if tokens else conversation.retained_count
    return Retained(entries, total=total, limit=window.limit)


def _new_rows(messages: list[ChatMessage], estimator: TokenCountEstimator) -> list[Message]:
    """Rows that have no place yet."""
    return [
        Message(**to_columns(message), token_count=estimator.estimate_token_count_in_message(message))
        for message in messages
    ]


def _estimator(window: Window | None, model: str) -> TokenCountEstimator:
    return window.estimator if window is not None and window.estimator is not None else estimator_for(model)


def add(
    target: Conversation | Target,
    messages: Iterable[ChatMessage],
    *,
    window: Window | None = None,
    idempotency_key: str | None = None,
) -> Change:
    """Add ``messages``, as if one after the other.

    Args:
        window: bounds the memory from now on; by default what the row says.
        idempotency_key: a second call with it gives the account of the first.
    """
    given = require_messages(messages)
    # Counting is what takes time, so it comes before the lock, by the model that most likely is the right one.
    estimator = _estimator(window, target.model if isinstance(target, Conversation) else setting("DEFAULT_MODEL"))
    rows = _new_rows(given, estimator)
    if isinstance(target, Conversation):
        target = Target.of(target)
    with atomic():
        conversation = target.lock()
        if idempotency_key is not None:
            earlier = _earlier(conversation, rows, idempotency_key)
            if earlier is not None:
                return target.settle(earlier)
        bound = window or _window_of(conversation)
        _apply_window(conversation, bound)
        if model_of(estimator) != conversation.model:
            rows = _new_rows(given, _estimator(bound, conversation.model))
        retained = _retained(conversation, bound, _oldest_first(conversation, bound))
        for row in rows:
            retained.add(_entry(row, bound), system_message_first=bound.always_keep_system_message_first)
        added = [entry.row for entry in retained.added]
        if not added:
            return target.settle(Change(conversation))
        added[0].idempotency_key = idempotency_key
        for row in added:
            row.position = conversation.next_position
            conversation.next_position += 1
            first = bound.always_keep_system_message_first and isinstance(row.message, SystemMessage)
            row.memory_order = (-row.position if first else row.position) * ORDER_STEP
        change = write(conversation, added, [(entry.row, reason) for entry, reason in retained.evicted])
    return target.settle(change)


def _earlier(conversation: Conversation, rows: list[Message], key: str) -> Change | None:
    first = conversation.messages.filter(idempotency_key=key).first()
    if first is None:
        return None
    added = list(conversation.messages.filter(added_in=first.added_in).order_by("position"))

    def substance(rows: list[Message]) -> list[ChatMessage]:
        # An equal system message is ignored when it is added, so it may be missing in the rows.
        return [row.message for row in rows if not isinstance(row.message, SystemMessage)]

    if substance(rows) != substance(added):
        raise IdempotencyConflictError(f"idempotency key {key!r} was used before, with other messages")
    evicted = list(conversation.messages.filter(evicted_in=first.added_in).order_by("position"))
    return Change(conversation, added, evicted)


def rewrite(
    target: Conversation | Target, messages: Iterable[ChatMessage], *, window: Window | None = None, said: bool = False
) -> Change:
    """Make ``messages`` the memory. Rows that stay are kept, the others are evicted, the new ones are inserted.

    Args:
        window: bounds the memory from now on and evicts what does not fit; by default what the row says. With
            ``said`` nothing is evicted but what ``messages`` leave out.
        said: whether this is how a foreign memory adds: new system messages, and new messages after all that stay,
            were said then, and belong to history. Otherwise all that is new is synthetic.
    """
    given = require_messages(messages)
    if isinstance(target, Conversation):
        target = Target.of(target)
    with atomic():
        conversation = target.lock()
        bound = window or _window_of(conversation)
        _apply_window(conversation, bound)
        old = list(conversation.messages.retained())
        new = _new_rows(given, _estimator(bound, conversation.model))
        plan = plan_rewrite(old, new, conversation.next_position, said=said)
        conversation.next_position += len(plan.inserted)
        evicted = [(row, EvictionReason.REWRITTEN) for row in plan.left_out]
        if not said:
            entries = [_entry(row, bound) for row in plan.memory]
            total = sum(entry.cost for entry in entries) + bound.overhead
            retained = Retained(entries, total=total, limit=bound.limit)
            retained.evict()
            evicted += [(entry.row, reason) for entry, reason in retained.evicted]
        if not plan.inserted and not evicted:
            return target.settle(Change(conversation))
        rewritten = not said or any(row.synthetic for row in plan.inserted)
        change = write(conversation, plan.inserted, evicted, rewritten=rewritten)
    return target.settle(change)


def clear(target: Conversation | Target) -> Change:
    """Evict everything."""
    if isinstance(target, Conversation):
        target = Target.of(target)
    with atomic():
        conversation = target.lock()
        rows = list(conversation.messages.retained())
        if not rows:
            return target.settle(Change(conversation))
        change = write(conversation, [], [(row, EvictionReason.CLEARED) for row in rows])
        after_commit(signals.memory_cleared, conversation)
    return target.settle(change)


def set_window(
    conversation: Conversation,
    *,
    window: str | None = None,
    limit: int | None = None,
    model: str | None = None,
    always_keep_system_message_first: bool | None = None,
) -> Change:
    """Change what is given of the window, and evict what no longer fits."""
    if limit is not None:
        check_limit(limit, "limit")
    if window is not None and window not in list(WindowKind):
        raise ValueError(f"window must be one of {', '.join(WindowKind)}, but is: {window!r}")
    target = Target.of(conversation)
    with atomic():
        locked = target.lock()
        if window is not None:
            locked.window = window
        if limit is not None:
            locked.limit = limit
        if always_keep_system_message_first is not None:
            locked.always_keep_system_message_first = always_keep_system_message_first
        recount = model is not None and model != locked.model
        if model is not None:
            locked.model = model
        bound = _window_of(locked)
        if recount:
            _recount(locked, estimator_for(locked.model))
        retained = _retained(locked, bound, _oldest_first(locked, bound))
        retained.evict()
        change = write(locked, [], [(entry.row, reason) for entry, reason in retained.evicted])
    return target.settle(change)
