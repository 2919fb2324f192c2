"""Plan a summary: which messages it covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter, itemgetter
from typing import Any

from django.db import router
from django.db.models import Count, F, Q, Sum

from chatmemory.conf import setting
from chatmemory.core.entries import Cause, Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.core.summaries import (
    USUAL_SUMMARY_TOKENS,
    Summarizer,
    check_keep,
    first_kept,
    first_kept_call,
    input_tokens_of,
    requests_of,
    summary_message,
    summary_text,
)
from chatmemory.core.window import Window, WindowKind
from chatmemory.database.connections import retry
from chatmemory.database.operations.plan import entry_of, memory_of
from chatmemory.database.reading import CHARS, chunks, read_in_parts, request_bound, rows_of
from chatmemory.database.rows import chars_of
from chatmemory.database.stored_windows import window_of
from chatmemory.models import STAND_INS, Conversation, Message, MessageQuerySet, Origin
from chatmemory.models.branch import current_rows

EVICTED = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER)
"""The reasons of messages that were evicted for lack of room. A summary may cover them later."""

TAKEN_IN = EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER, Cause.SUMMARY)
"""The reasons of messages that a summary covers, or the next one will: they were not removed.

There was no room for them, or they were replaced by a summary, which may have been erased since.
"""

_STANDS_FOR_RESULT = Q(type=ChatMessageType.TOOL_EXECUTION_RESULT.value, origin__in=[Origin.CLEARED, Origin.COPY])

_ONLY_COVERS = (Origin.SUMMARY, Origin.RESTORED)

_TAKEN_OUT = EvictionReason.of(Cause.SOMEBODY)

COVERABLE = ~Q(origin__in=STAND_INS) & ~Q(type=ChatMessageType.SYSTEM.value)
"""The condition for messages that a summary may cover. What a placeholder replaced is covered itself."""


@dataclass(frozen=True, kw_only=True)
class CompactionPlan:
    """The messages that a summary will cover. The plan can be applied after messages were added or evicted."""

    covers_from: int
    """The position of the first message, including those of the summary before."""

    covers_to: int
    """The position of the last message."""

    messages: tuple[ChatMessage, ...]
    """The messages since the summary before, in memory order, including evicted messages."""

    previous: str | None
    """The text of the summary before, which the new one includes, or None."""

    tokens: int
    """The tokens of ``messages`` and of the summary before. The new summary must have fewer."""

    previous_tokens: int
    """The tokens of the summary before."""

    version: int
    """The version of the memory when the plan was made."""

    evicted: tuple[int, ...]
    """The positions of the messages, and of a summary before, that were evicted for lack of room."""

    positions: tuple[int, ...]
    """The positions of the rows that the summary replaces: ``messages``, and placeholders."""

    summaries: tuple[int, ...]
    """The positions of the summaries before, usually one."""

    owner: Any
    """The primary key of the conversation's owner. If the owner changes, the plan is void."""

    compacted_from: int
    """The conversation's ``compacted_to`` when the plan was made."""

    compacted_to: int
    """The position from which the next summary continues."""

    until: int
    """The position up to which this part and those after it go."""

    expected_tokens: int
    """The tokens that the summary is expected to have."""

    has_more: bool
    """Whether another part follows, because one call of the summarizer does not take all."""

    @property
    def has_evicted(self) -> bool:
        """Whether the model lacks messages until there is a summary."""
        return bool(self.evicted)


def plan_compaction(
    conversation: Conversation,
    *,
    keep: int | None = None,
    summary_tokens: int | None = None,
    summarizer: Summarizer | None = None,
    after: CompactionPlan | None = None,
) -> CompactionPlan | None:
    """Plan a summary of the turns before those that stay, or of the first part of them; nothing is written.

    With ``compact_keep_calls``, it may also cover older calls of the last turn.

    Args:
        conversation: the conversation, whose row is read again.
        keep: the percent of the limit, from 0 to 100, that stays in whole turns; by default the conversation's
            ``compact_keep``. The last turn always stays, except calls that ``compact_keep_calls`` does not keep.
        summary_tokens: the expected tokens of the summary; by default those of the summary before, or
            ``USUAL_SUMMARY_TOKENS``, and at most a tenth of a limit in tokens.
        summarizer: the function that is to write it: a part has whole turns, as many as one call takes.
        after: the plan of the part before, which has been applied: no part goes further than the first would have.

    Returns:
        None if the messages have fewer than twice the expected tokens of a summary, or if there is no room for a
            summary: because pinned messages take half of the limit, the limit is one message, or the last turn leaves
            so little room that the window would evict the summary at once.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        ValueError: ``keep`` is not a percentage.
    """

    def first() -> CompactionPlan | None:
        plans = plan_parts(conversation, keep=keep, summary_tokens=summary_tokens, summarizer=summarizer, after=after)
        return next(plans, None)

    return retry(router.db_for_write(Conversation, instance=conversation), first)


def plan_parts(
    conversation: Conversation,
    *,
    keep: int | None = None,
    summary_tokens: int | None = None,
    summarizer: Summarizer | None = None,
    after: CompactionPlan | None = None,
) -> Iterator[CompactionPlan]:
    """Yield the plans of all parts: each as ``plan_compaction`` would return it once those before it are applied.

    None has a summary of those before it as its ``previous``, because that is not written yet. Beside the memory, only
    the messages of one part, and a few after it, are read at once.
    """
    if keep is not None:
        check_keep(keep)
    # Never a replica, which may lack the latest messages.
    database = router.db_for_write(Conversation, instance=conversation)
    row = Conversation.objects.using(database).get(pk=conversation.pk)
    window = window_of(row)
    memory = read_memory(row, window)
    if not _has_room(memory, window):
        return
    entries = memory.entries()
    most = window.room * (row.compact_keep if keep is None else keep) / 100
    kept = first_kept(entries, most)
    opened = _opened(row, memory, kept, most, after)
    if opened is not None:
        kept = opened.kept
    until = _next_start(row, entries[kept:], opened)
    places = _places(entries[:kept], until)
    if after is not None:
        until = min(until, after.until)
    leaving = _leaving(memory, kept, opened)
    leaving = [entry for entry in leaving if places[entry] <= until and entry.row.place != until]
    latest = _latest_summary(row)
    summaries = _summaries(entries, latest)
    expected = summary_tokens
    if after is not None:
        expected = after.expected_tokens
    elif expected is None:
        expected = _expected_tokens(summaries, window)
    going = {*leaving}
    if not _stays([entry for entry in entries if not (entry in going or entry.is_summary)], expected, window):
        return
    found = _in_order(_read_evicted(row, until, latest), [(places[entry], entry.row) for entry in leaving])
    for part, following in _divided(_turns(found, opened), summarizer, 2 * expected):
        plan = _plan_of(
            row,
            [one.row for one in part if one.row.evicted_in is not None],
            [one.row for one in part if one.row.evicted_in is None],
            summaries,
            compacted_to=until if following is None else _end_of(part, following, opened),
            until=until,
            expected_tokens=expected,
            has_more=following is not None,
        )
        if plan is None:
            return
        yield plan
        summaries = []


@dataclass(frozen=True)
class OpenedTurn:
    """The last turn, if a summary covers a part of it."""

    kept: int
    """The index of the first entry that stays, after the question."""

    question: Entry | None
    """The question, which stays; None if the window has evicted it: then the summary tells it."""

    asked: int
    """The position of the question; -1 if there is none."""


def _opened(
    conversation: Conversation, memory: Retained[Entry], kept: int, most: float, after: CompactionPlan | None
) -> OpenedTurn | None:
    """Return the last turn if a summary is to cover a part of it, else None.

    It does if no turn before it stays, and it does not fit in ``most`` or has lost messages to the window.

    Args:
        conversation: the conversation.
        memory: its memory.
        kept: the index of the first entry of the turns that stay.
        most: the maximum cost of what stays.
        after: the plan of the part before. If that part, or those after it, go into the turn, this one does.
    """
    opened, entries = opened_turn(conversation, memory), memory.entries()
    if opened is None or kept != first_kept(entries, 0):
        return None
    if after is not None and after.until > opened.asked:
        return opened
    older = {*_leaving(memory, opened.kept, opened)}.intersection(entries[kept:])
    is_long = older and sum(entry.cost for entry in entries[kept:]) > most
    lost = uncovered(conversation).filter(place__gt=opened.asked)
    return opened if is_long or lost.exists() else None


def opened_turn(conversation: Conversation, memory: Retained[Entry]) -> OpenedTurn | None:
    """Return what a summary may leave of the last turn; None without ``compact_keep_calls``."""
    if conversation.compact_keep_calls is None:
        return None
    entries = memory.entries()
    start, kept = first_kept(entries, 0), first_kept_call(entries, conversation.compact_keep_calls)
    if start < len(entries) and entries[start].begins_turn:
        return OpenedTurn(kept, entries[start], entries[start].row.place)
    asked = _questions(conversation).values_list(F("place"), flat=True).first()
    return OpenedTurn(kept, None, -1 if asked is None else asked)


def _end_of(part: Sequence[_Told], following: _Told, opened: OpenedTurn | None) -> int:
    """Return the position where a part ends: with the turns before the last one, before the question, which stays."""
    if opened is not None and part[-1].place < opened.asked < following.place:
        return opened.asked
    return following.place


@dataclass(frozen=True)
class _Told:
    """A message that a summary will cover."""

    place: int
    """Where it stands: the position up to which all that was evicted has been told before it."""

    row: Message
    is_new: bool
    """Whether a summary tells it. It does not tell a placeholder after the tool result."""


@dataclass
class _Part:
    """Messages that one summary takes in."""

    told: list[_Told] = field(default_factory=list)
    tokens: int = 0
    """Their stored tokens."""
    input_tokens: int = 0
    """The tokens that the summarizer reads of them."""
    chars: int = 0

    @classmethod
    def of(cls, told: list[_Told], summarizer: Summarizer | None) -> _Part:
        new = [one.row for one in told if one.is_new and not one.row.is_erased]
        return cls(
            told,
            sum(row.token_count for row in new),
            sum(sum(requests_of(summarizer, [row.message]) or [row.token_count]) for row in new),
            sum(chars_of(one.row) for one in told),
        )

    def add(self, other: _Part) -> None:
        self.told += other.told
        self.tokens += other.tokens
        self.input_tokens += other.input_tokens
        self.chars += other.chars


def _divided(
    turns: Iterable[list[_Told]], summarizer: Summarizer | None, least: int
) -> Iterator[tuple[list[_Told], _Told | None]]:
    """Yield the messages of each part, and the one that follows; after the last part None.

    A part has as many turns as one call of the summarizer takes, but at least the tokens that are worth a summary. If
    what is left at the end has fewer, it goes with the last part.
    """
    most, bound = input_tokens_of(summarizer), request_bound()
    part, rest = _Part(), _Part()
    for told in turns:
        turn = _Part.of(told, summarizer)
        fits = part.input_tokens + turn.input_tokens <= most
        fits = fits and bound.allows(len(part.told) + len(told), part.chars + turn.chars)
        if not rest.told and (fits or not part.told or part.tokens < least):
            part.add(turn)
            continue
        rest.add(turn)
        if rest.tokens >= least:
            yield part.told, rest.told[0]
            part, rest = rest, _Part()
    part.add(rest)
    if part.tokens >= least:
        yield part.told, None


def _turns(found: Iterable[_Told], opened: OpenedTurn | None) -> Iterator[list[_Told]]:
    """Yield the messages of each turn. One that is more than a request may read comes in pieces.

    The last turn, of which later messages stay, comes in calls with their results, and other messages.
    """
    bound = request_bound()
    turn: list[_Told] = []
    chars = 0
    for one in found:
        chars += chars_of(one.row)
        begins = one.row.type == ChatMessageType.USER
        if opened is not None and one.row.place > opened.asked:
            begins = one.row.type != ChatMessageType.TOOL_EXECUTION_RESULT
        if turn and (begins or not bound.allows(len(turn) + 1, chars)):
            yield turn
            turn, chars = [], chars_of(one.row)
        turn.append(one)
    if turn:
        yield turn


def _in_order(evicted: Iterable[Message], retained: list[tuple[int, Message]]) -> Iterator[_Told]:
    """Yield what was evicted, by position, and what is to leave, by its place, in one order."""
    known = {row.position for _place, row in retained}
    originals = {row.covers_from for _place, row in retained if _stands_for_result(row)}
    told = set()
    for place, row in merge(((row.place, row) for row in evicted), retained, key=itemgetter(0)):
        if row.evicted_in is None:
            yield _Told(place, row, not (_stands_for_result(row) and row.covers_from in told))
        elif row.position not in known:  # else it was evicted after the memory was read
            told |= originals & {row.position}
            yield _Told(place, row, True)


def _places(entries: Sequence[Entry], end: int) -> dict[Entry, int]:
    """Return where each entry stands among what was evicted: before the first of its successors that was said later.

    A placeholder or a copy has a later position than what stands behind it.

    Args:
        entries: the beginning of a memory.
        end: the position where the rest begins.
    """
    places = {}
    for entry in reversed(entries):
        end = min(end, entry.row.place) if _has_own_place(entry) else end
        places[entry] = end
    return places


def read_memory(conversation: Conversation, window: Window) -> Retained[Entry]:
    """Return the whole memory of a conversation, with the rows of its entries."""
    entries = [entry_of(row, window) for row in rows_of(conversation).retained()]
    return memory_of(conversation, window, entries)


def plan_through(
    conversation: Conversation,
    memory: Retained[Entry],
    kept: int,
    through: int,
    opened: OpenedTurn | None = None,
) -> CompactionPlan | None:
    """Plan a summary of what stands before the entry at the index ``kept``, and of what was evicted up to a position.

    Args:
        conversation: the conversation.
        memory: its memory.
        kept: the index.
        through: the position.
        opened: the last turn, if the summary covers a part of it.

    Returns:
        None if there is nothing new to summarise.
    """
    entries, latest = memory.entries(), _latest_summary(conversation)
    end = min(_next_start(conversation, entries[kept:], opened), through + 1)
    return _plan_of(
        conversation,
        list(_read_evicted(conversation, end, latest)),
        [entry.row for entry in _leaving(memory, kept, opened)],
        _summaries(entries, latest),
        compacted_to=end,
    )


def _plan_of(
    conversation: Conversation,
    evicted: list[Message],
    retained: list[Message],
    summaries: list[Message],
    *,
    compacted_to: int,
    until: int | None = None,
    expected_tokens: int = 0,
    has_more: bool = False,
) -> CompactionPlan | None:
    """Return the plan of a summary that takes in the given rows; None if none of them says anything."""
    known = {row.position for row in retained}
    evicted = [row for row in evicted if row.position not in known]
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
        until=compacted_to if until is None else until,
        expected_tokens=expected_tokens,
        has_more=has_more,
    )


def _summaries(entries: Sequence[Entry], latest: Message | None) -> list[Message]:
    """Return the summaries that the next one takes in: those of the memory, or the latest one if it was evicted."""
    summaries = [entry.row for entry in entries if entry.is_summary]
    if not summaries and latest is not None and latest.eviction_reason in TAKEN_IN:
        return [latest]
    return summaries


def _stands_for_result(row: Message) -> bool:
    """Return whether a row is a placeholder, or a copy of a placeholder or of a tool result."""
    is_result = row.type == ChatMessageType.TOOL_EXECUTION_RESULT
    return is_result and row.origin in (Origin.CLEARED, Origin.COPY)


def _leaving(memory: Retained[Entry], kept: int, opened: OpenedTurn | None) -> list[Entry]:
    """Return the entries that a summary replaces.

    They are the entries before the index ``kept``, except system messages, summaries, pinned entries, and the question
    of ``opened``.
    """
    question = None if opened is None else opened.question
    entries = memory.entries()
    return [
        entry
        for start, end in memory.units(0, kept)
        for entry in entries[start:end]
        if not (memory.is_pinned(start, end) or entry.is_summary or entry.type is ChatMessageType.SYSTEM)
        and entry is not question
    ]


def left_size(conversation: Conversation, through: int) -> tuple[int, int]:
    """Return the numbers of messages, and of their characters, that left a memory and that no summary covers.

    They are counted up to the position ``through``, and only until they exceed ``MAX_MEMORY_MESSAGES``.
    """
    place = Q(position__gte=conversation.compacted_to, place__lte=through)
    left = current_rows(conversation).filter(place, eviction_reason__in=TAKEN_IN)
    some = left.order_by("position").annotate(length=CHARS)[: setting("MAX_MEMORY_MESSAGES") + 1]
    found = some.aggregate(count=Count("pk"), chars=Sum("length"))
    return found["count"], found["chars"] or 0


def uncovered(conversation: Conversation) -> Any:
    """Return the messages that were evicted for lack of room and that no summary covers, as ``current_rows`` does.

    A tool result is not included if its placeholder was removed.
    """
    older, newer = _evicted(conversation, _latest_summary(conversation))
    return current_rows(conversation).filter(older | newer).order_by("place")


def _read_evicted(conversation: Conversation, before: int, latest: Message | None) -> Iterator[Message]:
    """Yield the messages before a position that no summary covers, read only as far as they are needed."""
    older, newer = _evicted(conversation, latest)
    begin, is_restored = conversation.compacted_to, Q(origin=Origin.RESTORED)
    rows = current_rows(conversation)
    restored = rows.filter(older | newer, is_restored, covers_from__lt=before).order_by("covers_from")
    said = _read_said(rows.exclude(is_restored), older, newer, begin, before)
    yield from merge(said, restored, key=attrgetter("place"))


def _read_said(rows: MessageQuerySet, older: Q, newer: Q, begin: int, before: int) -> Iterator[Message]:
    # Found by when they left: those before ``begin`` may be very many, and few of them left since the latest summary.
    since = rows.filter(older).alias(at=F("position") + 0).filter(at__lt=min(begin, before))
    for part in chunks(sorted(since.values_list("position", flat=True))):
        yield from read_in_parts(rows.filter(position__range=(part[0], part[-1]), position__in=part))
    yield from read_in_parts(rows.filter(newer, position__lt=before), after=begin - 1)


def _evicted(conversation: Conversation, latest: Message | None) -> tuple[Q, Q]:
    """Return the condition of messages that left after the latest summary came, and of those that it does not reach.

    Each is found by an index of its own, however long the history is.
    """
    its = Q(conversation=conversation)  # in each condition, so that each has an index
    begin = conversation.compacted_to
    is_new = its & Q(position__gte=begin) & (~Q(origin=Origin.RESTORED) | Q(covers_from__gte=begin))
    newer = current_rows(conversation).filter(is_new)
    is_summary, is_taken_out = Q(origin=Origin.SUMMARY), _STANDS_FOR_RESULT & Q(eviction_reason__in=_TAKEN_OUT)
    found = list(newer.filter(is_summary | is_taken_out).values_list("origin", "added_in", "covers_from"))
    # Each summary came in the version in which its messages left. If there is none, it has been erased.
    stands = [version for origin, version, _ in found if origin == Origin.SUMMARY]
    is_lost = Q(eviction_reason=EvictionReason.SUMMARIZED) & ~Q(evicted_in__in=stands)
    taken_out = [original for origin, _, original in found if origin != Origin.SUMMARY and original is not None]
    if taken_out:
        copies = newer.filter(_STANDS_FOR_RESULT, covers_from__in=taken_out).order_by("position")
        last = dict(copies.values_list("covers_from", "eviction_reason"))  # a rewrite may have copied a placeholder
        taken_out = [original for original in taken_out if last.get(original) in _TAKEN_OUT]
    left = Q(eviction_reason__in=EVICTED) | is_lost
    if taken_out:
        left &= ~Q(eviction_reason=EvictionReason.TOOL_CLEARED, position__in=taken_out)
    left &= COVERABLE & Q(evicted_in__isnull=False)
    # What was in the memory beside the latest summary was pinned then, or its own summary has been erased.
    older = Q(pk__in=[]) if latest is None else its & Q(evicted_in__gt=latest.added_in) & left
    return older, is_new & left


def _latest_summary(conversation: Conversation) -> Message | None:
    """Return the latest summary; None if there is none, or if it was erased with what it covered."""
    is_summary = Q(origin=Origin.SUMMARY, position__gte=conversation.compacted_to)
    found: Message | None = current_rows(conversation).filter(is_summary).order_by("-position").first()
    return found


def _first_position(row: Message) -> int:
    """Return the start of the range that a row covers. Rows that were not restored cover their own position, too."""
    if row.covers_from is None:
        return row.position
    return row.covers_from if row.origin in _ONLY_COVERS else min(row.position, row.covers_from)


def _last_position(row: Message) -> int:
    """Return the end of the range that a row covers."""
    if row.covers_to is None:
        return row.position
    return row.covers_to if row.origin in _ONLY_COVERS else max(row.position, row.covers_to)


def _next_start(conversation: Conversation, kept: Sequence[Entry], opened: OpenedTurn | None) -> int:
    """Return the position before which a summary includes evicted messages: the start of what stays.

    The question of the current turn is not included, even if the window has evicted it, unless the summary covers a
    part of this turn.
    """
    first = min((entry.row.place for entry in kept if _has_own_place(entry)), default=conversation.next_position)
    if opened is not None:
        return first
    since = _questions(conversation).filter(place__gte=conversation.compacted_to)
    question = since.values_list(F("place"), flat=True).first()
    return first if question is None else min(first, question)


def _questions(conversation: Conversation) -> Any:
    """Return the messages that begin turns, the latest first, as ``current_rows`` does."""
    rows = current_rows(conversation).filter(type=ChatMessageType.USER.value)
    return rows.exclude(origin=Origin.SUMMARY).order_by("-place")


def _has_own_place(entry: Entry) -> bool:
    """Return whether the position of an entry says when it was said in the conversation, and it may leave."""
    stays = entry.pinned or entry.type is ChatMessageType.SYSTEM
    return not (stays or entry.is_summary or entry.is_placeholder)


def _has_room(memory: Retained[Entry], window: Window) -> bool:
    """Return whether there is room for the smallest summary beside the pinned messages."""
    pinned = sum(entry.cost for entry in memory.entries() if entry.is_summary and entry.pinned)
    return (memory.pinned_cost() - pinned + 1) * 2 <= window.room


def _stays(stay: list[Entry], tokens: int, window: Window) -> bool:
    """Return whether the window would keep a summary of so many tokens before the entries that stay."""
    summary = Entry(summary_message(""), tokens if window.kind is WindowKind.TOKENS else 1, is_summary=True)
    return summary in Retained.fit([summary, *stay], window).entries()


def _expected_tokens(summaries: list[Message], window: Window) -> int:
    expected = sum(row.token_count for row in summaries if not row.is_erased) or USUAL_SUMMARY_TOKENS
    return min(expected, window.room // 10) if window.kind is WindowKind.TOKENS else expected
