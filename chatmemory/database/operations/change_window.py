"""Change the window of a memory, or count its tokens again."""

from __future__ import annotations

from typing import Any, Unpack

from django.db.models import Q

from chatmemory.core.tokens import TokenCountEstimator, stored_count
from chatmemory.core.window import Window
from chatmemory.database.change import Change, write, write_columns
from chatmemory.database.connections import retry
from chatmemory.database.operations.pin import require_room_for_pins
from chatmemory.database.operations.plan import plan_eviction
from chatmemory.database.reading import chunks, read_in_parts, rows_of
from chatmemory.database.stored_windows import (
    apply_window_settings,
    check_window_settings,
    estimator_for,
    estimator_of,
    settings_of,
    window_of,
)
from chatmemory.database.target import Target
from chatmemory.models import WINDOW_SETTINGS, Conversation, Message, WindowSettings

_RETAINED = Q(evicted_in__isnull=True)


def set_window(target: Target, **settings: Unpack[WindowSettings]) -> Change:
    """Change the given settings of the window, and evict what no longer fits.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        TypeError: a setting that does not exist.
        ValueError: a setting has no meaning, or pinned messages would take more than half of the limit.
    """
    check_window_settings(settings)
    model = settings.get("model")
    counts = _counted(target, estimator_for(model), _RETAINED) if model not in (None, target.likely_model) else {}

    def work(change: Change) -> None:
        conversation = change.conversation
        before = window_of(conversation)
        if apply_window_settings(conversation, settings):
            _count_again(conversation, estimator_for(conversation.model), counts)
        bound = window_of(conversation)
        require_room_for_pins(conversation, bound, before=before)
        write_columns(conversation, WINDOW_SETTINGS)
        write(change, *plan_eviction(conversation, bound))

    return target.change(work)


def recount(target: Target, model: str | None = None, *, since: int) -> Change:
    """Count the retained messages again, and those evicted after the version ``since``; evict what no longer fits.

    Args:
        target: the conversation.
        model: the one whose tokens are counted from now on; by default that of the row.
        since: the version up to which evicted messages have been counted already.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """

    counted = _RETAINED | Q(evicted_in__gt=since)
    before = model or target.likely_model
    counts = _counted(target, estimator_for(before), counted)

    def work(change: Change) -> None:
        conversation = change.conversation
        wanted = model if model is not None else conversation.model
        differs = _count_again(conversation, estimator_for(wanted), counts if wanted == before else {}, counted)
        if not differs and wanted == conversation.model:
            return
        conversation.model = wanted
        # The memory of a version never changes.
        conversation.version += 1
        write_columns(conversation, ["model", "retained_tokens", "version"])
        added, gone = plan_eviction(conversation, window_of(conversation))
        if gone:
            # A purge by age must not take this for activity.
            row = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
            active = row.values_list("updated_at", flat=True).get()
            write(change, added, gone)
            row.update(updated_at=active)
            conversation.updated_at = active

    return target.change(work)


def apply_window(conversation: Conversation, window: Window) -> None:
    """Make the row describe ``window``, and count its tokens by the window's estimator."""
    wanted = settings_of(window, conversation)
    estimator = estimator_of(window, conversation.model)
    changed = [name for name, value in wanted.items() if getattr(conversation, name) != value]
    for name in changed:
        setattr(conversation, name, wanted[name])
    if "model" in changed:
        _count_again(conversation, estimator, {})
    if changed:
        # At once, for the change that this is part of may turn out to change nothing.
        write_columns(conversation, [*changed, "retained_tokens"])


def _counted(target: Target, estimator: TokenCountEstimator, counted: Q) -> dict[Any, int]:
    """Return the counts of present rows by primary key. Counting takes long, so it is done before the lock."""
    if target.instance is None:
        return {}
    database = target.key.database
    rows = Message.objects.using(database).filter(counted, conversation=target.instance.pk)
    return retry(database, lambda: {row.pk: stored_count(row.message, estimator) for row in read_in_parts(rows)})


def _count_again(
    conversation: Conversation, estimator: TokenCountEstimator, known: dict[Any, int], counted: Q = _RETAINED
) -> bool:
    """Count the retained rows again, or other rows as well; return whether any count has changed.

    Args:
        conversation: the locked conversation.
        estimator: the estimator that counts.
        known: the counts of rows that were there before the lock; a message never changes.
        counted: the condition of the rows to count.
    """
    rows = rows_of(conversation).filter(counted).order_by()  # in any order, so by the index of the condition
    stored = list(rows.values_list("pk", "token_count", "evicted_in"))
    for keys in chunks([key for key, _count, _evicted_in in stored if key not in known]):
        known |= {row.pk: stored_count(row.message, estimator) for row in read_in_parts(rows.filter(pk__in=keys))}
    changed = [Message(pk=key, token_count=known[key]) for key, count, _evicted_in in stored if known[key] != count]
    rows_of(conversation).bulk_update(changed, ["token_count"], batch_size=500)
    conversation.retained_tokens = sum(known[key] for key, _count, evicted_in in stored if evicted_in is None)
    return bool(changed)
