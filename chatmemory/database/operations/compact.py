"""Summarise a conversation: when a summary is due, which process writes it, and how it replaces turns.

With the lease, one process at a time summarises a conversation. The lease ends by the database's clock. Nothing is
locked while the summarizer writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction
from django.db.models import BigIntegerField, Count, Exists, F, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Cast

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.core.asynchronous import for_seconds, in_new_thread_for_seconds
from chatmemory.core.entries import Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.exceptions import InvalidValueError, SummarizerTimeoutError, UnusableSummaryError
from chatmemory.core.json_text import dumps, with_replacements
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.summaries import SUMMARISED, Summarizer, check_summary, first_kept, summary_message
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.change import Change, Gone, Target, write
from chatmemory.database.connections import UtcNow, give_back, require_no_transaction, retry
from chatmemory.database.idempotency import check_key, fingerprint, recall, remember
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.operations.compaction_plan import (
    COVERABLE,
    EVICTED,
    TAKEN_IN,
    CompactionPlan,
    OpenedTurn,
    opened_turn,
    plan_compaction,
    plan_parts,
    plan_through,
    read_memory,
    uncovered,
)
from chatmemory.database.operations.plan import check_size, entry_of, evicted_rows, orders_between, placed_rows
from chatmemory.database.reading import MemoryBound, chunks, rows_of
from chatmemory.database.statements import Key
from chatmemory.database.stored_windows import estimator_of, window_of
from chatmemory.models import (
    ORDER_STEP,
    RESERVED,
    Branch,
    Compaction,
    Conversation,
    ConversationQuerySet,
    Message,
    Origin,
)
from chatmemory.models.branch import current_rows
from chatmemory.models.compaction import LONGEST_ERROR


def compact(
    conversation: Conversation,
    summarizer: Summarizer,
    *,
    keep: int | None = None,
    if_due: bool = False,
    lease: float | None = None,
) -> Iterator[tuple[CompactionPlan, Change]]:
    """Summarise the older turns of a conversation in parts, and yield the plan and the change of each.

    A part has as many turns as one call of ``summarizer`` takes, and stays summarised if a later one fails, or if the
    caller stops. While ``summarizer`` works, no transaction is open and no turn waits.

    Args:
        conversation: the conversation, whose row is read again.
        summarizer: a sync or async function that takes messages and the summary before them (or None), and returns a
            text.
        keep: the percent of the limit that stays in whole turns; by default the conversation's ``compact_keep``.
        if_due: whether to do nothing before ``compact_at`` is reached or the window has evicted messages that no
            summary covers, and while a pause after a failure lasts.
        lease: the seconds for which nobody else begins a summary of this conversation; by default twice those that
            ``summarizer`` may take.

    It ends, with nothing more done, if another is at it, or there is nothing to summarise, or the messages were erased,
    taken out or summarised while ``summarizer`` worked.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased, or was anonymised before ``summarizer`` failed.
        RuntimeError: the caller is within a transaction.
        SummarizerTimeoutError: ``summarizer`` did not end in time.
        UnusableSummaryError: the text cannot take the place of the messages.
        ValueError: ``keep`` is not a percentage, or the conversation is not saved.
        Exception: what ``summarizer`` raised. The failure is noted; nothing else has changed.
    """
    own = Lease(conversation, Target.of(conversation).key.database, lease or 2 * setting("SUMMARIZER_TIMEOUT"))
    done = _compact_part(conversation, summarizer, own, keep, if_due, None)
    while done is not None:
        yield done
        done = _compact_part(conversation, summarizer, own, keep, if_due, done[0]) if done[0].has_more else None


def _compact_part(
    conversation: Conversation,
    summarizer: Summarizer,
    own: Lease,
    keep: int | None,
    if_due: bool,
    after: CompactionPlan | None,
) -> tuple[CompactionPlan, Change] | None:
    if not own.try_take(also_after_failure=not if_due):
        return None
    try:
        plan = plan_compaction(conversation, keep=keep, summarizer=summarizer, after=after)
        if plan is None or (if_due and after is None and not is_due(_fresh(conversation), plan)):
            return None
        try:
            give_back()
            summarised = SUMMARISED.set(conversation)
            try:
                text = _text_of(summarizer, plan)
            finally:
                SUMMARISED.reset(summarised)
        except Exception as error:
            _note(own, conversation, plan, error)
            raise
        try:
            change = apply_compaction(Target.of(conversation), plan, text)
        except UnusableSummaryError as error:  # other errors are not the summarizer's
            _note(own, conversation, plan, error)
            raise
        own.note_success()
        return None if change is None else (plan, change)
    finally:
        own.release()


def _fresh(conversation: Conversation) -> Conversation:
    database = Target.of(conversation).key.database
    return retry(database, lambda: Conversation.objects.using(database).get(pk=conversation.pk))


def _note(own: Lease, conversation: Conversation, plan: CompactionPlan, error: Exception) -> None:
    own.note_failure(error, plan)
    signals.compaction_failed.send_robust(Conversation, conversation=conversation, plan=plan, error=error)


def _text_of(summarizer: Summarizer, plan: CompactionPlan) -> str:
    """Return the summary that ``summarizer`` writes, with a text that databases can store.

    Raises:
        SummarizerTimeoutError: it does not end in time. An async one is cancelled; a sync one goes on in its thread.
        Exception: what it raised.
    """
    seconds = float(setting("SUMMARIZER_TIMEOUT"))
    write: Any = partial(summarizer, plan.messages, plan.previous)
    is_async = inspect.iscoroutinefunction(summarizer) or inspect.iscoroutinefunction(
        getattr(summarizer, "__call__", None)  # noqa: B004
    )
    in_time: Any = async_to_sync(for_seconds) if is_async else in_new_thread_for_seconds
    ended = in_time(write, seconds)
    if ended is None:
        raise SummarizerTimeoutError(seconds)
    return with_replacements(ended[0])  # type: ignore[no-any-return]


_EVICTED_FOR_ROOM = Q(eviction_reason__in=EVICTED) & COVERABLE

UNCOVERED = Q(position__gte=F("conversation__compacted_to")) & _EVICTED_FOR_ROOM
"""The condition for messages that were evicted for lack of room and that no summary covers."""

_LIMIT = Cast("limit", BigIntegerField())  # a product with the column itself may be larger than it holds
_IS_FULL = Q(window=WindowKind.TOKENS.value, retained_tokens__gte=(_LIMIT - RESERVED) * F("compact_at") / 100) | Q(
    window=WindowKind.MESSAGES.value, retained_count__gte=_LIMIT * F("compact_at") / 100
)


def due_conversations(conversations: ConversationQuerySet) -> ConversationQuerySet:
    """Return the conversations in which a summary may be due: ``is_due`` knows.

    Conversations are not included if a summary failed recently, or is being written.
    """
    evicted = Message.objects.filter(
        _EVICTED_FOR_ROOM, conversation=OuterRef("pk"), position__gte=OuterRef("compacted_to")
    )
    waits = Q(compaction__retry_at__gt=UtcNow()) | Q(compaction__leased_until__gt=UtcNow())
    return conversations.filter(_IS_FULL | Exists(evicted), compact_at__isnull=False).exclude(waits)


def is_due(conversation: Conversation, plan: CompactionPlan | None) -> bool:
    """Return whether the summary that was planned is due: as the first of its parts, so are those after it.

    One is due if the memory has reached ``compact_at`` percent of its limit, or the window has evicted messages that no
    summary covers, and the range is worth it.
    """
    if plan is None or conversation.compact_at is None:
        return False
    has_evicted = plan.has_evicted or (plan.has_more and uncovered(conversation).filter(place__lt=plan.until).exists())
    return has_evicted or conversation.is_full


def due_parts(
    conversation: Conversation, *, keep: int | None = None, summarizer: Summarizer | None = None
) -> Iterator[CompactionPlan]:
    """Yield the plans of the summaries that are due in a conversation, see ``plan_parts``.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        ValueError: ``keep`` is not a percentage.
    """
    if conversation.compact_at is None:
        return
    is_first = True
    for plan in plan_parts(conversation, keep=keep, summarizer=summarizer):
        if is_first and not is_due(conversation, plan):
            return
        is_first = False
        yield plan


def still_uncovered(conversation: Conversation, plan: CompactionPlan) -> tuple[int, int]:
    """Return the numbers of messages, and of their tokens, that the parts after ``plan`` are to cover.

    The database counts them, with those that a pin keeps.
    """
    if not plan.has_more:
        return 0, 0
    later = Q(place__gte=plan.compacted_to, place__lt=plan.until)
    retained = current_rows(conversation).filter(COVERABLE, evicted_in__isnull=True)
    counts = [
        rows.filter(later).order_by().aggregate(count=Count("pk"), tokens=Sum("token_count"))
        for rows in (uncovered(conversation), retained)
    ]
    return sum(each["count"] for each in counts), sum(each["tokens"] or 0 for each in counts)


BACK_OFF = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30))
"""The pauses after the first, the second, and each further failure in a row."""

_IN_TRANSACTION = (
    "A conversation cannot be summarised in a transaction: other processes would not see the lease, and its row would "
    "be locked while the model "
    "works. Call compact() outside of transaction.atomic(). If the setting ATOMIC_REQUESTS opened the "
    "transaction, mark the view with @transaction.non_atomic_requests."
)
_ERASED = "the conversation has been erased"


def error_text(error: BaseException) -> str:
    """Return the class and the text of an exception, with replacements for what databases cannot store."""
    try:
        said = str(error)
    except Exception:  # str() of a package's exception may fail, and the failure must still count
        said = "without a text"
    return with_replacements(f"{type(error).__name__}: {said}")[:LONGEST_ERROR]


class Lease:
    """The right to write the next summary of a conversation. It expires, so a killed process does not block it."""

    def __init__(self, conversation: Conversation, database: str, seconds: float) -> None:
        """Args:
        conversation: the conversation to summarise.
        database: the alias of its database.
        seconds: the time after which the lease expires.
        """
        self._conversation = conversation
        self._database = database
        self._seconds = seconds
        self._number = 0

    def try_take(self, *, also_after_failure: bool) -> bool:
        """Take the lease unless another process has it. Return whether it was taken.

        Args:
            also_after_failure: whether to take it during the pause after a failure.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased.
            RuntimeError: a transaction is open.
        """
        require_no_transaction(self._database, _IN_TRANSACTION)
        rows = self._rows()
        conversations = Conversation.objects.using(self._database).filter(pk=self._conversation.pk)
        is_free = rows.filter(Q(leased_until__isnull=True) | Q(leased_until__lte=UtcNow()))
        if not also_after_failure:
            is_free = is_free.filter(Q(retry_at__isnull=True) | Q(retry_at__lte=UtcNow()))

        def take() -> int:
            with transaction.atomic(using=self._database):
                if not rows.exists() and conversations.exists():
                    row = Compaction(conversation=self._conversation)
                    Compaction.objects.using(self._database).bulk_create([row], ignore_conflicts=True)
                end: Any = UtcNow() + timedelta(seconds=self._seconds)
                if is_free.update(lease=F("lease") + 1, leased_until=end):
                    return rows.values_list("lease", flat=True).get()
                if not rows.exists():  # MariaDB ignores a missing conversation like an existing row
                    raise Conversation.DoesNotExist(_ERASED)
                return 0

        try:
            self._number = retry(self._database, take)
        except IntegrityError as error:  # it was erased between the two statements
            raise Conversation.DoesNotExist(_ERASED) from error
        return bool(self._number)

    def release(self) -> None:
        """Release the lease, unless another process has taken it."""
        own = self._rows().filter(lease=self._number)
        retry(self._database, lambda: own.update(leased_until=None))

    def note_success(self) -> None:
        """Forget earlier failures."""
        rows = self._rows().filter(failures__gt=0)
        retry(self._database, lambda: rows.update(failures=0, failed_at=None, retry_at=None, error=""))

    def note_failure(self, error: BaseException, plan: CompactionPlan) -> None:
        """Record a failure, and the time of the next attempt.

        The text of ``error`` may quote messages of ``plan``. It is not stored if one of them has been erased.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased or anonymised.
        """

        def note(change: Change) -> None:
            row = self._rows().select_for_update().first()
            if row is None:
                raise Conversation.DoesNotExist(_ERASED) from error
            pause: Any = UtcNow() + BACK_OFF[min(row.failures, len(BACK_OFF) - 1)]
            text = error_text(error) if _is_whole(plan, change.conversation) else type(error).__name__
            self._rows().update(failures=F("failures") + 1, failed_at=UtcNow(), retry_at=pause, error=text)

        # A purge takes the same lock, so it cannot run in between.
        Target(Key.of(self._conversation, self._database)).change(note)

    def _rows(self) -> QuerySet[Compaction]:
        return Compaction.objects.using(self._database).filter(conversation=self._conversation.pk)


def _is_whole(plan: CompactionPlan, conversation: Conversation) -> bool:
    """Return whether all messages of ``plan`` still exist, and the owner is the same."""
    positions = [*plan.positions, *plan.summaries]
    found = sum(rows_of(conversation).filter(position__in=chunk).count() for chunk in chunks(positions))
    return conversation.owner_id == plan.owner and found == len(positions)


def apply_compaction(target: Target, plan: CompactionPlan, text: str) -> Change | None:
    """Replace the messages that ``plan`` covers and that are still in the memory by a summary.

    Messages that were added since stay. Messages that were evicted since stay evicted, and the summary covers them too.

    Args:
        target: the conversation.
        plan: the messages that the summary covers.
        text: the summary.

    Returns:
        None if nothing was done, because some of the messages have been erased or removed, another summary covers them,
            they now belong to the last turn, or the conversation has another owner or was anonymised.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        UnusableSummaryError: ``text`` is blank, cannot be stored, is not smaller than what it covers, or does not fit
            the window.
    """
    new = _new_summary(target, text)
    is_applied = False

    def require_owner(locked: Conversation) -> None:  # a precondition gets the whole current row
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
    """Replace all turns up to a position by the caller's summary.

    Args:
        target: the conversation.
        through: the position of the last message that the summary covers: the end of a turn, but not of the last turn;
            or, in the last turn, before the calls that ``compact_keep_calls`` keeps.
        text: the summary, which includes the summary before it.
        idempotency_key: a second call with the same key returns the original result.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
        CoveredError: everything up to ``through`` is already summarised.
        IdempotencyConflictError: the key was already used for another request.
        MemoryTooLargeError: the memory is, or would become, larger than the target allows.
        UnusableSummaryError: as for ``apply_compaction``.
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
        kept, opened = _kept_behind(memory, through, conversation)
        plan = plan_through(conversation, memory, kept, through, opened)
        if plan is None or not _apply(change, plan, new, target.most):
            raise _covered(conversation, through)
        if idempotency_key is not None:
            remember(change, idempotency_key, request)

    return target.change(work)


class _AnotherOwnerError(Exception):
    """The conversation has had a change of owner, or was anonymised, since the summary was planned."""


class CoveredError(InvalidValueError):
    """An error for a position up to which everything is already summarised."""

    code = "already_summarized"


def _covered(conversation: Conversation, through: int) -> CoveredError:
    return CoveredError(
        "through is %(through)s, but no message up to there can be summarised: a summary covers all before "
        "%(position)s, or they are pinned or removed",
        through=through,
        position=conversation.compacted_to,
    )


def _new_summary(target: Target, text: str) -> NewMessages:
    """Return the message of a summary. Its tokens are counted before any lock."""
    new = NewMessages([summary_message(check_summary(text))])
    new.token_counts(estimator_of(None, target.likely_model))
    return new


def _kept_behind(memory: Retained[Entry], through: int, conversation: Conversation) -> tuple[int, OpenedTurn | None]:
    """Return the index of the first entry that a summary through a position does not replace, and the last turn if the
    summary covers a part of it.

    Raises:
        CoveredError: everything up to ``through`` is already summarised.
        InvalidValueError: no turn, or the last turn, ends at ``through``.
    """
    if through < conversation.compacted_to:
        raise _covered(conversation, through)
    entries = memory.entries()
    starts = [index for index, entry in enumerate(entries) if entry.begins_turn]
    opened = opened_turn(conversation, memory)
    cuts = [] if opened is None else _cuts(memory, opened)
    pinned = {entry for start, end in memory.units(0) if memory.is_pinned(start, end) for entry in entries[start:end]}
    for index, entry in enumerate(entries):
        stays = entry in pinned or entry.is_summary or entry.is_placeholder or entry.type is ChatMessageType.SYSTEM
        if not stays and entry.row.place > through:
            after = _first_evicted(conversation, through, entry.row.place)
            if index in starts and after in {None, ChatMessageType.USER.value}:
                return index, None
            if index in cuts and after != ChatMessageType.TOOL_EXECUTION_RESULT.value:
                return index, opened
            break
    ends = [
        entries[index].row.place - 1
        for index in [*starts, *cuts]
        if entries[index].row.place > conversation.compacted_to
    ]
    raise InvalidValueError(
        "through must be the position at which a turn before the last one ends, such as %(known)s; it is: %(through)s"
        if ends
        else "through must be the position at which a turn before the last one ends, but there is none yet; "
        "it is: %(through)s",
        known=ends[-3:],
        through=through,
    )


def _cuts(memory: Retained[Entry], opened: OpenedTurn) -> list[int]:
    """Return the indexes in the last turn before which a summary may end."""
    entries = memory.entries()
    start = first_kept(entries, 0) + (opened.question is not None)
    return [index for index, _end in memory.units(start, len(entries)) if index <= opened.kept]


def _first_evicted(conversation: Conversation, through: int, before: int) -> str | None:
    """Return the type of the first message between two positions that the window has evicted, or None."""
    gone = uncovered(conversation).filter(place__gt=through, place__lt=before)
    type: str | None = gone.values_list("type", flat=True).first()
    return type


def _apply(change: Change, plan: CompactionPlan, new: NewMessages, most: MemoryBound | None) -> bool:
    """Write the summary if ``plan`` still holds. Return whether it does."""
    conversation = change.conversation
    window = window_of(conversation)
    memory = read_memory(conversation, window)
    entries, covered = memory.entries(), _covered_now(conversation, plan)
    leave = _leaving(memory, covered)
    # After a rewind, the last turn may be one that was covered.
    if any(entry in leave and not entry.is_summary for entry in _last_turn(conversation, memory)):
        return False
    if not _still_holds(conversation, memory, plan, covered):
        return False
    (row,) = new.rows(estimator_of(window, conversation.model))
    if row.token_count >= plan.tokens:
        raise UnusableSummaryError(
            "a summary must be smaller than what it covers, but has %(count)s of %(most)s tokens",
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
    if plan.has_more:  # what leaves for the summary now is mostly in the next: no more than has to
        window = replace(window, low_water=100)
    fitted = Retained(rest, total=window.overhead + sum(entry.cost for entry in rest), window=window)
    _check_room(fitted, rest[place], window)
    fitted.evict()
    # Not 0, even if the first message comes after later ones: 0 means that there was no summary.
    conversation.compacted_to = max(conversation.compacted_to, plan.compacted_to, 1)
    added = [row, *placed_rows(fitted, row.position + 1, window)]
    gone += evicted_rows(fitted)
    check_size(most, conversation, added, gone)  # fewer tokens may be more characters
    conversation.next_position += len(added)
    write(change, added, gone)
    return True


def _last_turn(conversation: Conversation, memory: Retained[Entry]) -> list[Entry]:
    """Return the entries of the last turn that no summary may cover."""
    entries, opened = memory.entries(), opened_turn(conversation, memory)
    if opened is None:
        return entries[first_kept(entries, 0) :]
    return [entry for index, entry in enumerate(entries) if index >= opened.kept or entry is opened.question]


def _covered_now(conversation: Conversation, plan: CompactionPlan) -> set[int]:
    """Return the positions of the plan, and of placeholders that replaced its messages since."""
    since = rows_of(conversation).filter(position__gt=max(plan.positions), added_in__gt=plan.version)
    placeholders = since.filter(origin=Origin.CLEARED, covers_from__isnull=False)
    planned = {*plan.positions}
    replaced = placeholders.values_list("position", "covers_from")
    return planned | {position for position, original in replaced if original in planned}


def _still_holds(conversation: Conversation, memory: Retained[Entry], plan: CompactionPlan, covered: set[int]) -> bool:
    """Return whether no other summary covers the messages of ``plan``, and none was removed or erased."""
    summaries = {entry.row.position for entry in memory.entries() if entry.is_summary}
    if (
        Branch.objects.using(conversation._state.db)
        .filter(conversation=conversation, version__gt=plan.version)
        .exists()
    ):
        return False  # the messages may be on another branch now
    if conversation.compacted_to != plan.compacted_from or not summaries <= {*plan.summaries}:
        return False
    states: dict[int, tuple[int | None, str]] = {}
    for chunk in chunks([*covered, *plan.summaries]):
        rows = rows_of(conversation).filter(position__in=chunk)
        states |= {row[0]: row[1:] for row in rows.values_list("position", "evicted_in", "eviction_reason")}
    if any(left is not None and reason not in TAKEN_IN for left, reason in states.values()):
        return False
    missing = {*plan.positions, *plan.summaries} - states.keys()
    # If history is not kept, missing messages of the memory were evicted: if they had been removed, ``compacted_to``
    # would show it. Messages that were evicted before were erased.
    return not missing or (not setting("KEEP_HISTORY") and missing.isdisjoint(plan.evicted))


def _leaving(memory: Retained[Entry], covered: set[int]) -> set[Entry]:
    """Return the entries that the summary replaces.

    A unit that was pinned since stays, and so does one with a new tool result, because the summary does not contain its
    text.
    """
    entries = memory.entries()
    leave = {entry for entry in entries if entry.is_summary}
    for start, end in memory.units(0):
        unit = entries[start:end]
        if not memory.is_pinned(start, end) and all(entry.row.position in covered for entry in unit):
            leave.update(unit)
    return leave


def _place(rest: list[Entry], plan: CompactionPlan, window: Window) -> int:
    """Return the index of the summary: before the turns that stay, after the system message and earlier pins."""
    # A result may be a placeholder or a copy that was added later than its call.
    for start, _ in Retained(rest, total=0, window=window).units(0):
        if rest[start].type is not ChatMessageType.SYSTEM and rest[start].row.place >= plan.compacted_to:
            return start
    return len(rest)


def _order(rest: list[Entry], place: int, position: int) -> int:
    """Return the memory order of a new message at ``position``, to be inserted at the index ``place``."""
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
    """Raise an error if the summary and the pinned messages would leave too little room for others."""
    cost = summary.cost + memory.pinned_cost()
    if cost * 2 > window.room:
        raise UnusableSummaryError(
            "a summary, with pinned messages, may take half of the limit, but would take %(cost)s of %(limit)s "
            "%(unit)s",
            code="max_length",
            cost=cost,
            limit=window.room,
            unit=window.kind.value,
        )
