"""Put a summary in the place of the messages that it stands for."""

from __future__ import annotations

from dataclasses import replace

from chatmemory.conf import setting
from chatmemory.core.entries import Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.exceptions import InvalidValueError, UnusableSummaryError
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.summaries import check_summary, first_kept, summary_message
from chatmemory.core.window import Window
from chatmemory.database.change import Change, Gone
from chatmemory.database.estimators import estimator_of, window_of
from chatmemory.database.idempotency import check_key, fingerprint, recall, remember
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.operations.compaction.plan import (
    TAKEN_IN,
    CompactionPlan,
    plan_of,
    read_memory,
    uncovered,
)
from chatmemory.database.operations.plan import check_size, entry_of, evicted_rows, placed_rows
from chatmemory.database.operations.positions import orders_between
from chatmemory.database.reading import MemoryBound, chunks, rows_of
from chatmemory.database.target import Target
from chatmemory.database.write_change import write
from chatmemory.models import ORDER_STEP, Conversation, Origin

__all__ = ["CoveredError", "apply_compaction", "apply_text"]


def apply_compaction(target: Target, plan: CompactionPlan, text: str) -> Change | None:
    """Put a summary in the place of the messages that ``plan`` covers, as far as they are still in the memory.

    What was added since stays. What was evicted since stays evicted, and the summary stands for it, too.

    Args:
        target: the conversation.
        plan: what the summary stands for.
        text: the summary.

    Returns:
        None, with nothing done, if some of the messages have been erased or taken out of the conversation since, or
        another summary stands for them, or they belong to the last turn now, or the conversation was given to another
        user or anonymised.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        UnusableSummaryError: ``text`` is blank, no database can hold it, it is not smaller than what it stands for, or
            too large for the window.
    """
    new = _new_summary(target, text)
    is_applied = False

    def require_owner(locked: Conversation) -> None:  # a precondition gets the whole row, as it is now
        if locked.owner_id != plan.owner:
            raise _AnotherOwnerError

    def work(change: Change) -> None:
        nonlocal is_applied
        is_applied = _apply(change, plan, new, target.most)

    try:
        change = replace(target, precondition=require_owner).change(work)
    except _AnotherOwnerError:
        return None
    return change if is_applied else None


def apply_text(target: Target, through: int, text: str, *, idempotency_key: str | None = None) -> Change:
    """Put a summary that the caller made in the place of all turns up to a position.

    Args:
        target: the conversation.
        through: the position of the last message that the summary stands for: the end of a turn, and not of the last.
        text: the summary; it takes in the one before.
        idempotency_key: a second call with the same key returns the account of the first.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        CoveredError: there is nothing up to ``through`` that no summary stands for.
        IdempotencyConflictError: the key was used before, for another request.
        MemoryTooLargeError: the memory is, or would be, larger than the target says.
        UnusableSummaryError: as :func:`apply_compaction` says.
        InvalidValueError: no turn ends at ``through``.
    """
    new = _new_summary(target, text)
    request = fingerprint(dumps([through, text]))
    if idempotency_key is not None:
        check_key(idempotency_key)

    def work(change: Change) -> None:
        if idempotency_key is not None and recall(change, idempotency_key, request):
            return
        conversation = change.conversation
        memory = read_memory(conversation, window_of(conversation))
        plan = plan_of(conversation, memory, _kept_behind(memory, through, conversation), through=through)
        if plan is None or not _apply(change, plan, new, target.most):
            raise _covered(conversation, through)
        if idempotency_key is not None:
            remember(change, idempotency_key, request)

    return target.change(work)


class _AnotherOwnerError(Exception):
    """The conversation has another owner than when the summary was planned, or none any more."""


class CoveredError(InvalidValueError):
    """An error about a position up to which there is nothing left to summarise."""

    code = "already_summarized"


def _covered(conversation: Conversation, through: int) -> CoveredError:
    return CoveredError(
        "through is %(through)s, but no message up to there can be summarised: a summary stands for all before "
        "%(position)s, or they are pinned, or somebody took them out",
        through=through,
        position=conversation.compacted_to,
    )


def _new_summary(target: Target, text: str) -> NewMessages:
    """Return the message of a summary, whose tokens are counted before any lock."""
    new = NewMessages([summary_message(check_summary(text))])
    new.token_counts(estimator_of(None, target.likely_model))
    return new


def _kept_behind(memory: Retained[Entry], through: int, conversation: Conversation) -> int:
    """Return the index of the first entry that a summary through a position does not replace.

    Raises:
        CoveredError: ``through`` is before all that no summary stands for.
        InvalidValueError: no turn ends at ``through``, or the last one does.
    """
    if through < conversation.compacted_to:
        raise _covered(conversation, through)
    entries = memory.entries()
    starts = [index for index, entry in enumerate(entries) if entry.begins_turn]
    pinned = {entry for start, end in memory.units(0) if memory.is_pinned(start, end) for entry in entries[start:end]}
    for index, entry in enumerate(entries):
        stays = entry in pinned or entry.is_summary or entry.is_placeholder or entry.type is ChatMessageType.SYSTEM
        if not stays and entry.row.position > through:
            if index in starts and not _cuts_evicted_turn(conversation, through, entry.row.position):
                return index
            break
    ends = [
        entries[index].row.position - 1 for index in starts if entries[index].row.position > conversation.compacted_to
    ]
    raise InvalidValueError(
        "through must be the position at which a turn before the last one ends, such as %(known)s; it is: %(through)s"
        if ends
        else "through must be the position at which a turn before the last one ends, but there is none yet; "
        "it is: %(through)s",
        known=ends[-3:],
        through=through,
    )


def _cuts_evicted_turn(conversation: Conversation, through: int, before: int) -> bool:
    """Return whether the window has evicted a message after ``through`` that belongs to the turn of those before."""
    gone = uncovered(conversation).filter(position__gt=through, position__lt=before)
    return gone.values_list("type", flat=True).first() not in {None, ChatMessageType.USER.value}


def _apply(change: Change, plan: CompactionPlan, new: NewMessages, most: MemoryBound | None) -> bool:
    """Write the summary if ``plan`` still holds, and return whether it does."""
    conversation = change.conversation
    window = window_of(conversation)
    memory = read_memory(conversation, window)
    entries, covered = memory.entries(), _covered_now(conversation, plan)
    leave = _leaving(memory, covered)
    last_turn = entries[first_kept(entries, 0) :]  # after a rewind it may be one that was covered
    if any(entry in leave and not entry.is_summary for entry in last_turn):
        return False
    if not _still_holds(conversation, memory, plan, covered):
        return False
    (row,) = new.rows(estimator_of(window, conversation.model))
    if row.token_count >= plan.tokens:
        raise UnusableSummaryError(
            "a summary must be smaller than what it stands for, but has %(count)s of %(most)s tokens",
            code="max_length",
            count=row.token_count,
            most=plan.tokens,
        )
    row.origin, row.covers_from, row.covers_to = Origin.SUMMARY, plan.covers_from, plan.covers_to
    row.position = conversation.next_position
    gone: list[Gone] = [(entry.row, EvictionReason.SUMMARIZED) for entry in entries if entry in leave]
    rest = [entry for entry in entries if entry not in leave]
    place = _place(rest, plan, window)
    row.memory_order = _order(rest, place, row.position)
    rest.insert(place, entry_of(row, window))
    fitted = Retained(rest, total=window.overhead + sum(entry.cost for entry in rest), window=window)
    _check_room(fitted, rest[place], window)
    fitted.evict()
    # Not 0, even if what was said first stands behind what was put before it: a 0 says that there was no summary.
    conversation.compacted_to = max(conversation.compacted_to, plan.compacted_to, 1)
    added = [row, *placed_rows(fitted, row.position + 1, window)]
    gone += evicted_rows(fitted)
    check_size(most, conversation, added, gone)  # fewer tokens may be more characters
    conversation.next_position += len(added)
    write(change, added, gone)
    return True


def _covered_now(conversation: Conversation, plan: CompactionPlan) -> set[int]:
    """Return the positions of the plan, and those of placeholders that were put in the place of its messages since."""
    since = rows_of(conversation).filter(position__gt=max(plan.positions), added_in__gt=plan.version)
    placeholders = since.filter(origin=Origin.CLEARED, covers_from__isnull=False)
    planned = {*plan.positions}
    replaced = placeholders.values_list("position", "covers_from")
    return planned | {position for position, original in replaced if original in planned}


def _still_holds(conversation: Conversation, memory: Retained[Entry], plan: CompactionPlan, covered: set[int]) -> bool:
    """Return whether no other summary stands for the messages of ``plan``, and nobody took them out or erased them."""
    summaries = {entry.row.position for entry in memory.entries() if entry.is_summary}
    if conversation.compacted_to != plan.compacted_from or not summaries <= {*plan.summaries}:
        return False
    states: dict[int, tuple[int | None, str]] = {}
    for chunk in chunks([*covered, *plan.summaries]):
        rows = rows_of(conversation).filter(position__in=chunk)
        states |= {row[0]: row[1:] for row in rows.values_list("position", "evicted_in", "eviction_reason")}
    if any(left is not None and reason not in TAKEN_IN for left, reason in states.values()):
        return False
    missing = {*plan.positions, *plan.summaries} - states.keys()
    # Where history is not kept, what was in the memory and is missing was evicted: if somebody took it out,
    # ``compacted_to`` says so. What had left before was erased.
    return not missing or (not setting("KEEP_HISTORY") and missing.isdisjoint(plan.evicted))


def _leaving(memory: Retained[Entry], covered: set[int]) -> set[Entry]:
    """Return the entries that the summary takes the place of.

    A unit that was pinned since stays, and so does one with a tool result that came since: no summary has its text.
    """
    entries = memory.entries()
    leave = {entry for entry in entries if entry.is_summary}
    for start, end in memory.units(0):
        unit = entries[start:end]
        if not memory.is_pinned(start, end) and all(entry.row.position in covered for entry in unit):
            leave.update(unit)
    return leave


def _place(rest: list[Entry], plan: CompactionPlan, window: Window) -> int:
    """Return the index of the summary: before the turns that stay, behind the system message and earlier pins."""
    # A result may be a placeholder or a copy, which came later than its call.
    for start, _ in Retained(rest, total=0, window=window).units(0):
        if rest[start].type is not ChatMessageType.SYSTEM and rest[start].row.position >= plan.compacted_to:
            return start
    return len(rest)


def _order(rest: list[Entry], place: int, position: int) -> int:
    """Return the memory order of a new message at ``position`` that is to stand at the index ``place``."""
    orders: list[int] = [entry.row.memory_order for entry in rest]
    if place == len(orders):
        return position * ORDER_STEP
    while place:
        between = orders_between(1, orders[place - 1], orders[place])
        if between is not None:
            return between[0]
        place -= 1
    return orders[0] - ORDER_STEP


def _check_room(memory: Retained[Entry], summary: Entry, window: Window) -> None:
    """Raise if the summary, with what is pinned, would leave too little room for others."""
    cost = summary.cost + memory.pinned_cost()
    if cost * 2 > window.limit:
        raise UnusableSummaryError(
            "a summary, with pinned messages, may take half of the limit, but would take %(cost)s of %(limit)s "
            "%(unit)s",
            code="max_length",
            cost=cost,
            limit=window.limit,
            unit=window.kind.value,
        )
