"""Change the window of a memory, or recount its tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Unpack

from django.db import router
from django.db.models import Q

from chatmemory.conf import setting
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage, UserMessage
from chatmemory.core.tokens import TokenCountEstimator, stored_count, tokens_of_request
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.change import Change, Target, WindowTrial, write, write_columns
from chatmemory.database.connections import retry
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.operations.pin import check_pins, require_room_for_pins
from chatmemory.database.operations.plan import (
    entry_of,
    evicted_rows,
    memory_of,
    oldest_entries,
    placed_rows,
    plan_eviction,
)
from chatmemory.database.reading import chunks, is_at_the_end, read_in_parts, read_rows, rows_of
from chatmemory.database.stored_windows import (
    apply_window_settings,
    check_window_settings,
    estimator_for,
    estimator_of,
    settings_of,
    tokens_of_tools,
    window_of,
)
from chatmemory.models import WINDOW_SETTINGS, Conversation, Message, TokenCalibration, WindowSettings

_RETAINED = Q(evicted_in__isnull=True)


def set_window(target: Target, **settings: Unpack[WindowSettings]) -> Change:
    """Change settings of the window, and evict what no longer fits.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        TypeError: a setting is unknown.
        ValueError: a setting is invalid, or pinned messages would take more than half of the limit.
    """
    settings = check_window_settings(settings)
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


TOKENS_TO_RECALL = 1000
"""The tokens that are recalled with a message of the user at most if the window counts messages."""


def share_to_recall(conversation: Conversation) -> int:
    """Return the tokens that are recalled with a message of the user at most: a tenth of a window of tokens."""
    return conversation.limit // 10 if conversation.window == WindowKind.TOKENS else TOKENS_TO_RECALL


def room_to_recall(conversation: Conversation, tools: str, tokens: int) -> int:
    """Return the tokens of what may be recalled now, besides the memory, the tools and the answer; it may be negative.

    Args:
        conversation: the conversation.
        tools: the definitions of tools, as JSON; empty if there are none.
        tokens: the tokens of the answer.
    """
    share = share_to_recall(conversation)
    if conversation.window != WindowKind.TOKENS:
        return share
    used = conversation.retained_tokens + window_of(conversation).overhead + tokens
    used += tokens_of_tools(tools, conversation.model) if tools else 0
    return min(share, conversation.limit - used)


def reserve(target: Target, model: str, tools: str, tokens: int, *, recalls: bool = False) -> Change | None:
    """Keep room in a window of tokens for what a request has beside the memory, unless there is enough already.

    Args:
        target: the conversation, whose ``instance`` says what is reserved.
        model: the name of the model that is asked. With ``CALIBRATE_TOKENS`` there is room for all tokens that its
            server will count.
        tools: the definitions of tools, as JSON; empty if there are none.
        tokens: the tokens of the answer.
        recalls: whether there is room for what is recalled.

    Returns:
        None if the reserve is already large enough.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        PinnedTooMuchError: pinned messages would have too little room.
    """
    conversation = target.instance
    if conversation is None or conversation.window != WindowKind.TOKENS:
        return None
    needed = tokens + (tokens_of_tools(tools, conversation.model) if tools else 0)
    needed += share_to_recall(conversation) if recalls else 0
    if setting("CALIBRATE_TOKENS"):
        factor = TokenCalibration.factor(target.key.database, model)
        limit = conversation.limit - tokens
        needed += max(0, limit - int(limit / factor))
    return set_window(target, reserve=needed) if needed > conversation.reserve else None


def estimate_request(target: Target, tools: str, recalled: str = "") -> int | None:
    """Return the tokens of a request with the memory, as they are counted here; None without an ``instance``.

    Args:
        target: the conversation.
        tools: the definitions of tools, as JSON; empty if there are none.
        recalled: the text of a message of the request that is not in the memory; empty if there is none.
    """
    row = target.instance
    if row is None:
        return None
    estimator = estimator_for(row.model)
    tokens = row.retained_tokens + tokens_of_request(estimator) + (tokens_of_tools(tools, row.model) if tools else 0)
    if recalled:
        tokens += estimator.estimate_token_count_in_message(UserMessage(recalled))
    return tokens


def calibrate(target: Target, model: str, estimated: int, reported: int) -> None:
    """Note the input tokens of a request, as they were estimated here, and as the model's server counted them.

    Without ``CALIBRATE_TOKENS`` nothing is noted.
    """
    if setting("CALIBRATE_TOKENS"):
        TokenCalibration.note(target.key.database, model, estimated=estimated, reported=reported)


def make_room(target: Target, tokens_that_fit: Callable[[int, int], int]) -> Change:
    """Evict messages, as the window evicts, because a model refused the request as too long.

    If nothing can be evicted, nothing changes.

    Args:
        target: the conversation.
        tokens_that_fit: takes the tokens of a request with this memory and the window's low-water mark, and returns the
            maximum tokens of the memory.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """

    def work(change: Change) -> None:
        conversation = change.conversation
        window = replace(window_of(conversation), kind=WindowKind.TOKENS)
        tokens = conversation.retained_tokens + window.overhead
        smaller = replace(window, limit=tokens_that_fit(tokens, window.low_water), low_water=100, reserve=0)
        memory = memory_of(conversation, smaller, oldest_entries(conversation, smaller))
        memory.make_room()
        added = placed_rows(memory, conversation.next_position, smaller)
        conversation.next_position += len(added)
        if gone := evicted_rows(memory):
            write(change, added, gone)

    return target.change(work)


def recount(target: Target, model: str | None = None, *, since: int) -> Change:
    """Recount the retained messages and those evicted after the version ``since``, and evict what no longer fits.

    Args:
        target: the conversation.
        model: the new model; by default that of the row.
        since: the version up to which evicted messages have already been counted.

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
            # A purge by age must not count this as activity.
            row = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
            active = row.values_list("updated_at", flat=True).get()
            write(change, added, gone)
            row.update(updated_at=active)
            conversation.updated_at = active

    return target.change(work)


def apply_window(conversation: Conversation, window: Window) -> None:
    """Write ``window`` to the row, and recount its tokens with the window's estimator."""
    wanted = settings_of(window, conversation)
    estimator = estimator_of(window, conversation.model)
    changed = [name for name, value in wanted.items() if getattr(conversation, name) != value]
    for name in changed:
        setattr(conversation, name, wanted[name])
    if "model" in changed:
        _count_again(conversation, estimator, {})
    if changed:
        # Written now, because the caller may not write anything else.
        write_columns(conversation, [*changed, "retained_tokens"])


def _counted(target: Target, estimator: TokenCountEstimator, counted: Q) -> dict[Any, int]:
    """Return the counts of current rows by primary key. Counting is slow, so it is done before the lock."""
    if target.instance is None:
        return {}
    database = target.key.database
    rows = Message.objects.using(database).filter(counted, conversation=target.instance.pk)
    return retry(database, lambda: {row.pk: stored_count(row.message, estimator) for row in read_in_parts(rows)})


def _count_again(
    conversation: Conversation, estimator: TokenCountEstimator, known: dict[Any, int], counted: Q = _RETAINED
) -> bool:
    """Recount the retained rows, or other rows as well. Return whether any count has changed.

    Args:
        conversation: the locked conversation.
        estimator: the estimator.
        known: the counts of rows from before the lock. Messages never change.
        counted: the condition for the rows to count.
    """
    rows = rows_of(conversation).filter(counted).order_by()  # no order, so the index of the condition is used
    stored = list(rows.values_list("pk", "token_count", "evicted_in"))
    for keys in chunks([key for key, _count, _evicted_in in stored if key not in known]):
        known |= {row.pk: stored_count(row.message, estimator) for row in read_in_parts(rows.filter(pk__in=keys))}
    changed = [Message(pk=key, token_count=known[key]) for key, count, _evicted_in in stored if known[key] != count]
    rows_of(conversation).bulk_update(changed, ["token_count"], batch_size=500)
    conversation.retained_tokens = sum(known[key] for key, _count, evicted_in in stored if evicted_in is None)
    return bool(changed)


@dataclass(frozen=True, kw_only=True)
class MemoryToTry:
    """A memory that is read once, to try several windows on it."""

    conversation: Conversation
    """The row, at the version of ``rows``."""

    rows: list[Message]
    """The retained messages, in memory order."""

    @classmethod
    def read(cls, conversation: Conversation) -> MemoryToTry:
        """Read the memory of a conversation.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased.
        """
        # Never a replica, because the next turn will use the primary.
        database = router.db_for_write(Conversation, instance=conversation)

        def read() -> MemoryToTry:
            row = Conversation.objects.using(database).get(pk=conversation.pk)
            rows = read_rows(row)  # this may refresh ``row``, so it comes first
            return cls(conversation=row, rows=rows)

        return retry(database, read)

    def try_window(self, settings: WindowSettings, messages: Iterable[ChatMessage] = ()) -> WindowTrial:
        """Try a window on the memory, then add ``messages``. Neither the object nor the database is changed.

        Raises:
            TypeError: a setting is unknown, or an item is not a message.
            ValueError: a setting is invalid, pinned messages would take more than half of the limit, or databases
                cannot store a text.
        """
        settings = check_window_settings(settings)
        new = NewMessages.of(messages)
        row, rows = copy(self.conversation), self.rows
        before = window_of(row)
        if apply_window_settings(row, settings):
            rows = [copy(kept) for kept in rows]
            for kept in rows:
                kept.token_count = stored_count(kept.message, estimator_for(row.model))
        bound = window_of(row)
        if any(kept.is_pinned for kept in rows):
            check_pins(rows, bound, before=before)
        return _fit(row, rows, new.rows(estimator_for(row.model)), bound)


def try_window(
    conversation: Conversation, *, messages: Iterable[ChatMessage] = (), **settings: Unpack[WindowSettings]
) -> WindowTrial:
    """Try a window on the current memory, then add ``messages``. Nothing is written.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        TypeError: a setting is unknown, or an item is not a message.
        ValueError: a setting is invalid, pinned messages would take more than half of the limit, or databases cannot
            store a text.
    """
    settings = check_window_settings(settings)
    new = NewMessages.of(messages)
    return MemoryToTry.read(conversation).try_window(settings, new)


def fit_rows(conversation: Conversation) -> WindowTrial:
    """Return the memory that fits the row's window. The limit may have been lowered since the last change."""
    return _fit(conversation, read_rows(conversation), [], window_of(conversation))


def _fit(conversation: Conversation, rows: list[Message], added: list[Message], bound: Window) -> WindowTrial:
    retained = Retained.fit([entry_of(row, bound) for row in rows], bound)
    for row in added:
        retained.add(entry_of(row, bound))
    said = placed_rows(retained, conversation.next_position, bound)
    for row in said:
        row.conversation = conversation
        row.added_in = conversation.version + 1
    stay = [entry.row for entry in retained.entries()]
    only_adds = not retained.evicted and all(map(is_at_the_end, said))
    return WindowTrial(
        window=bound.kind.value,
        limit=bound.limit,
        version=conversation.version,
        prefix_version=conversation.prefix_version if only_adds else conversation.version + 1,
        retained=stay,
        evicted=[(entry.row, reason) for entry, reason in retained.evicted],
        added=said,
        tokens=sum(row.token_count for row in stay),
    )
