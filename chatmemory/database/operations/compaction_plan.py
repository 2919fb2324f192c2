"""Plan a summary: which messages it is to stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import router
from django.db.models import Count, Q, Sum

from chatmemory.conf import setting
from chatmemory.core.entries import Cause, Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.core.summaries import USUAL_SUMMARY_TOKENS, check_keep, first_kept, summary_message, summary_text
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.connections import retry
from chatmemory.database.operations.plan import entry_of, memory_of
from chatmemory.database.reading import CHARS, chunks, read_in_parts, request_bound, rows_of
from chatmemory.database.rows import read_size
from chatmemory.database.stored_windows import window_of
from chatmemory.models import STAND_INS, Conversation, Message, MessageQuerySet, Origin

EVICTED = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER)
"""The reasons of messages that left for want of room: a summary may stand for them later."""

TAKEN_IN = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER, Cause.SUMMARY)
"""The reasons of what a summary has taken in, or the next one will: nobody took it out.

There was no room for it, or a summary took its place, which may have been erased since.
"""

_STANDS_FOR_RESULT = Q(type=ChatMessageType.TOOL_EXECUTION_RESULT.value, origin__in=[Origin.CLEARED, Origin.COPY])

_TAKEN_OUT = EvictionReason.of(Cause.SOMEBODY)

COVERABLE = ~Q(origin__in=STAND_INS) & ~Q(type=ChatMessageType.SYSTEM.value)
"""The condition that a summary may stand for a message. What a placeholder stands for is covered itself."""


@dataclass(frozen=True, kw_only=True)
class CompactionPlan:
    """The messages that a summary is to stand for. It may be applied later, whatever was said or evicted meanwhile."""

    covers_from: int
    """The position of the first message, those of the summary before included."""

    covers_to: int
    """The position of the last message."""

    messages: tuple[ChatMessage, ...]
    """The messages since the summary before, in memory order; those that the window has evicted are among them."""

    previous: str | None
    """The text of the summary before, which the new one takes in; None if there is none."""

    tokens: int
    """The tokens of ``messages`` and of the summary before: the new one must have fewer."""

    previous_tokens: int
    """The tokens of the summary before."""

    version: int
    """The version of the memory that was planned on."""

    evicted: tuple[int, ...]
    """The positions of the messages, and of a summary before, that had left the memory for want of room."""

    positions: tuple[int, ...]
    """The positions of the rows that the summary takes the place of: ``messages``, and placeholders."""

    summaries: tuple[int, ...]
    """The positions of the summaries before, mostly one."""

    owner: Any
    """The primary key of the conversation's owner: if it has another one later, or none, the plan is void."""

    compacted_from: int
    """``compacted_to`` of the conversation when it was planned."""

    compacted_to: int
    """The position from which the next summary goes on."""

    @property
    def has_evicted(self) -> bool:
        """Whether the model lacks some of what was said until there is a summary."""
        return bool(self.evicted)


def plan_compaction(
    conversation: Conversation, *, keep: int | None = None, summary_tokens: int | None = None
) -> CompactionPlan | None:
    """Plan a summary of the turns before those that stay; nothing is written.

    Args:
        conversation: the conversation; its row is read anew.
        keep: the percent of the limit, from 0 to 100, that stays in whole turns; by default the conversation's
            ``compact_keep``. The last turn always stays.
        summary_tokens: the tokens that the summary is expected to have; by default those of the summary before, or
            ``USUAL_SUMMARY_TOKENS``, and at most a tenth of a limit in tokens.

    Returns:
        None if there is nothing that is worth a summary: fewer than twice the tokens that it is expected to have. Also
        if none has room, because pinned messages take half of the limit, or because the limit is one message, or
        because the last turn leaves so little that the window would evict the summary at once.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        ValueError: ``keep`` is no percentage.
    """
    if keep is not None:
        check_keep(keep)
    # Never a replica: it may lack the latest messages.
    database = router.db_for_write(Conversation, instance=conversation)

    def read() -> CompactionPlan | None:
        row = Conversation.objects.using(database).get(pk=conversation.pk)
        window = window_of(row)
        memory = read_memory(row, window)
        if not _has_room(memory, window):
            return None
        percent = row.compact_keep if keep is None else keep
        plan = plan_of(row, memory, first_kept(memory.entries(), window.room * percent / 100))
        if plan is None:
            return None
        expected = _expected_tokens(plan, window) if summary_tokens is None else summary_tokens
        is_worth_it = plan.tokens - plan.previous_tokens >= 2 * expected
        return plan if is_worth_it and _stays(memory, plan, expected, window) else None

    return retry(database, read)


def read_memory(conversation: Conversation, window: Window) -> Retained[Entry]:
    """Return the whole memory of a conversation, with the rows of its entries."""
    entries = [entry_of(row, window) for row in rows_of(conversation).retained()]
    return memory_of(conversation, window, entries)


def plan_of(
    conversation: Conversation, memory: Retained[Entry], kept: int, *, through: int | None = None
) -> CompactionPlan | None:
    """Plan a summary of what stands before the entry at the index ``kept``, and of what was evicted before it.

    Args:
        conversation: the conversation.
        memory: its memory.
        kept: the index of the first entry that stays.
        through: the last position from which the summary takes in what was evicted; by default that before the
            turns that stay.

    Returns:
        None if there is nothing new to summarise.
    """
    entries = memory.entries()
    retained = [entry.row for entry in _leaving(memory, kept)]
    compacted_to = _next_start(conversation, entries[kept:])
    if through is not None:
        compacted_to = min(compacted_to, through + 1)
    summaries = [entry.row for entry in entries if entry.is_summary]
    latest = _latest_summary(conversation)
    if not summaries and latest is not None and latest.eviction_reason in TAKEN_IN:
        summaries = [latest]
    # What was evicted after the memory was read is in both.
    known = {row.position for row in retained}
    left = _evicted(conversation, compacted_to, latest).values_list("position", flat=True)
    # By positions within a range: each part of the whole query would look at all rows before or behind it again.
    rows = rows_of(conversation)
    parts = (rows.filter(position__range=(part[0], part[-1]), position__in=part) for part in chunks([*left]))
    evicted = [row for part in parts for row in read_in_parts(part) if row.position not in known]
    originals = {row.position for row in evicted}
    orders = {row.covers_from: row.memory_order for row in retained if _stands_for_result(row)}
    said = sorted(
        [*evicted, *(row for row in retained if not (_stands_for_result(row) and row.covers_from in originals))],
        key=lambda row: (orders.get(row.position, row.memory_order), row.position),
    )
    said = [row for row in said if not row.is_erased]
    if not said:
        return None
    before = [row for row in summaries if not row.is_erased]
    previous_tokens = sum(row.token_count for row in before)
    covered = [*said, *before]
    return CompactionPlan(
        covers_from=min(map(_first_position, covered)),
        covers_to=max(map(_last_position, covered)),
        messages=tuple(row.message for row in said),
        previous="\n\n".join(summary_text(row.message) for row in before) or None,
        tokens=previous_tokens + sum(row.token_count for row in said),
        previous_tokens=previous_tokens,
        version=conversation.version,
        evicted=tuple(row.position for row in (*evicted, *summaries) if row.evicted_in is not None),
        positions=tuple(sorted({row.position for row in (*said, *retained)})),
        summaries=tuple(row.position for row in summaries),
        owner=conversation.owner_id,
        compacted_from=conversation.compacted_to,
        compacted_to=compacted_to,
    )


def _stands_for_result(row: Message) -> bool:
    """Return whether a row is a placeholder, or a copy of one or of a tool result."""
    is_result = row.type == ChatMessageType.TOOL_EXECUTION_RESULT
    return is_result and row.origin in (Origin.CLEARED, Origin.COPY)


def _leaving(memory: Retained[Entry], kept: int) -> list[Entry]:
    """Return the entries that a summary takes the place of.

    They are those before the index ``kept`` that are no system message, no summary, and not pinned.
    """
    entries = memory.entries()
    return [
        entry
        for start, end in memory.units(0, kept)
        for entry in entries[start:end]
        if not (memory.is_pinned(start, end) or entry.is_summary or entry.type is ChatMessageType.SYSTEM)
    ]


def is_summarizable(conversation: Conversation) -> bool:
    """Return whether one request may read all that a summary would stand for: the memory, and what left it."""
    bound = request_bound()
    return bound.allows(*read_size(conversation)) and bound.allows(*left_size(conversation))


def left_size(conversation: Conversation) -> tuple[int, int]:
    """Return the numbers of messages, and of their characters, that left a memory and that no summary covers.

    They are counted only until they exceed ``MAX_MEMORY_MESSAGES``.
    """
    left = rows_of(conversation).filter(position__gte=conversation.compacted_to, eviction_reason__in=TAKEN_IN)
    some = left.order_by("position").annotate(length=CHARS)[: setting("MAX_MEMORY_MESSAGES") + 1]
    found = some.aggregate(count=Count("pk"), chars=Sum("length"))
    return found["count"], found["chars"] or 0


def uncovered(conversation: Conversation) -> MessageQuerySet:
    """Return the messages that left a memory for want of room, and that no summary covers, by position.

    A tool result is not among them if somebody took its placeholder out.
    """
    return _evicted(conversation, conversation.next_position, _latest_summary(conversation))


def _evicted(conversation: Conversation, before: int, latest: Message | None) -> MessageQuerySet:
    its = Q(conversation=conversation)  # in each part, so that each is found by an index, however long the history is
    is_new = its & Q(position__gte=conversation.compacted_to, position__lt=before)
    left = Q(eviction_reason__in=EVICTED)
    if latest is None:
        left |= Q(eviction_reason=EvictionReason.SUMMARIZED)  # by a summary that has been erased
    else:
        # What was in the memory beside the latest summary was pinned then, or its own summary has been erased.
        is_new |= its & Q(evicted_in__gt=latest.added_in, position__lt=before)
        left |= Q(eviction_reason=EvictionReason.SUMMARIZED, evicted_in__gt=latest.added_in)
    rows = Message.objects.using(conversation._state.db)
    standing = rows.filter(its, _STANDS_FOR_RESULT, position__gte=conversation.compacted_to).order_by("position")
    last = dict(standing.values_list("covers_from", "eviction_reason"))  # a rewrite may have copied a placeholder
    taken_out = [position for position, reason in last.items() if position is not None and reason in _TAKEN_OUT]
    found = rows.filter(is_new, left, COVERABLE, evicted_in__isnull=False).order_by("position")
    return found.exclude(eviction_reason=EvictionReason.TOOL_CLEARED, position__in=taken_out) if taken_out else found


def _latest_summary(conversation: Conversation) -> Message | None:
    """Return the latest summary; None if there is none, or if it has been erased with what it stood for."""
    rows = rows_of(conversation).filter(position__gte=conversation.compacted_to, origin=Origin.SUMMARY)
    return rows.order_by("-position").first()


def _first_position(row: Message) -> int:
    """Return where the range begins that a row stands for. All but a summary stand for their own position, too."""
    if row.covers_from is None:
        return row.position
    return row.covers_from if row.origin == Origin.SUMMARY else min(row.position, row.covers_from)


def _last_position(row: Message) -> int:
    """Return where the range ends that a row stands for."""
    if row.covers_to is None:
        return row.position
    return row.covers_to if row.origin == Origin.SUMMARY else max(row.position, row.covers_to)


def _next_start(conversation: Conversation, kept: Sequence[Entry]) -> int:
    """Return the position up to which a summary takes in what was evicted: where the turns that stay begin.

    The question of the turn under way stays out even if the window has evicted it.
    """
    question = (
        rows_of(conversation)
        .filter(type=ChatMessageType.USER.value, position__gte=conversation.compacted_to)
        .exclude(origin=Origin.SUMMARY)
        .order_by("-position")
        .values_list("position", flat=True)
        .first()
    )
    stay = [entry for entry in kept if not (entry.pinned or entry.is_summary or entry.is_placeholder)]
    positions = (entry.row.position for entry in stay if entry.type is not ChatMessageType.SYSTEM)
    first = min(positions, default=conversation.next_position)
    return first if question is None else min(first, question)


def _has_room(memory: Retained[Entry], window: Window) -> bool:
    """Return whether there is room for the smallest summary beside what is pinned: nobody is asked for one in vain."""
    pinned = sum(entry.cost for entry in memory.entries() if entry.is_summary and entry.pinned)
    return (memory.pinned_cost() - pinned + 1) * 2 <= window.room


def _stays(memory: Retained[Entry], plan: CompactionPlan, tokens: int, window: Window) -> bool:
    """Return whether the window would keep a summary of so many tokens in the place of what ``plan`` covers."""
    covered = {*plan.positions, *plan.summaries}
    summary = Entry(summary_message(""), tokens if window.kind is WindowKind.TOKENS else 1, is_summary=True)
    stay = [entry for entry in memory.entries() if entry.row.position not in covered]
    return summary in Retained.fit([summary, *stay], window).entries()


def _expected_tokens(plan: CompactionPlan, window: Window) -> int:
    expected = plan.previous_tokens or USUAL_SUMMARY_TOKENS
    return min(expected, window.room // 10) if window.kind is WindowKind.TOKENS else expected
