"""A past memory as a page shows it: its messages, the answer made from it, and what it had no longer.

What differs from another version, and the memory as JSON, are pages of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from django.db.models import Max, Min
from django.db.models.functions import MD5

from chatmemory.admin.display.asked_memory import AskedMemory
from chatmemory.admin.display.bounded_rows import position_ranges, read_bounded, without_text
from chatmemory.admin.display.json_layout import lay_out
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.memory_view import with_brief_front
from chatmemory.admin.display.message import ShownMessage, shown
from chatmemory.admin.display.past_rows import PastRows
from chatmemory.admin.display.strip import MOST_BARS, Strip
from chatmemory.admin.display.timeline import MOST_SHOWN
from chatmemory.admin.display.timeline_entries import TimelineEntry, memory_entries
from chatmemory.core.json_text import dumps
from chatmemory.database.reading import ANSWERS, lost_with_answer
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import message_formats
from chatmemory.models import Conversation, Message, MessageQuerySet, Origin

__all__ = [
    "Gap",
    "Gaps",
    "ShownDifference",
    "answers_around",
    "difference",
    "json_texts",
    "newest_missing",
    "shown_memory",
]


_MOST_GONE = 60  # bars of messages that were gone
_MOST_NAMED = 5

# Positions in which the next answer is looked for.
_NEAR = 1000


@dataclass(frozen=True, kw_only=True)
class AnswersAround:
    """The positions of the answers before and after a moment; None where none is near."""

    previous: int | None
    next: int | None


def answers_around(conversation: Conversation, asked: AskedMemory) -> AnswersAround:
    """Return the answers before and after the answer that is asked for, or the last message that is known."""
    at = asked.answer.position if asked.answer is not None else asked.after
    at = -1 if at is None else at
    answers = conversation.messages.filter(ANSWERS).values_list("position", flat=True)
    before, include = answers.filter(position__gte=at - _NEAR), asked.answer is None
    earlier = before.filter(position__lte=at) if include else before.filter(position__lt=at)
    later = answers.filter(position__gt=at, position__lte=at + _NEAR)
    return AnswersAround(previous=earlier.order_by("-position").first(), next=later.order_by("position").first())


def shown_memory(past: PastRows, *, with_text: bool) -> dict[str, Any]:
    """Return what the page says of the memory."""
    asked, rows = past.asked, past.rows
    end = asked.after + 1 if asked.after is not None else 0
    missing = _read(asked, newest_missing(end, past.positions, _MOST_GONE), with_text=with_text)
    memory = MemoryMap.of((row.position, row.type, row.token_count) for row in rows)
    entries = memory_entries(past.last(MOST_SHOWN), memory, with_text=with_text, version=asked.version)
    tokens = sum(row.token_count for row in rows)
    return {
        "entries": with_brief_front(entries, memory),
        "answer": _answer_entry(asked, tokens, with_text=with_text),
        "left_out": max(0, len(rows) - MOST_SHOWN),
        "count": len(rows),
        "positions": position_ranges(row.position for row in rows),
        "memory_tokens": tokens,
        "over": past.over,
        "lacks_evicted": max(end, asked.version) > 0 and not asked.is_now and asked.conversation.purged_count > 0,
        "gaps": Gaps.before(end, rows, {row.position for row in missing if row.synthetic}),
        "last_gone": [shown(row, with_text=with_text) for row in missing if not row.synthetic][-_MOST_NAMED:],
        "unsure": _came_and_left(asked),
        "strip": _strip([*missing, *(entry.message.row for entry in entries)], memory, with_text=with_text),
    }


def _read(asked: AskedMemory, positions: list[int], *, with_text: bool) -> list[Message]:
    rows = asked.conversation.messages.filter(position__in=positions).order_by("position")
    return read_bounded(rows) if with_text else list(without_text(rows))


def _answer_entry(asked: AskedMemory, before: int, *, with_text: bool) -> TimelineEntry | None:
    """Return the entry of the answer, as it was when it was written; None if a version is asked for.

    Args:
        asked: what is asked for.
        before: the tokens of the request.
        with_text: whether this reader may read what the answer says.
    """
    if asked.answer is None:
        return None
    rows: MessageQuerySet = asked.conversation.messages.filter(pk=asked.answer.pk)
    read = read_bounded(rows) if with_text else list(without_text(rows))
    alone = MemoryMap(edge=None, totals={asked.answer.position: before + asked.answer.token_count})
    return next(iter(memory_entries(read, alone, with_text=with_text, version=asked.answer.added_in)), None)


def _came_and_left(asked: AskedMemory) -> tuple[int, int] | None:
    """Return the first and the last position of what came and left in the answer's own change; None if nothing did."""
    if asked.answer is None:
        return None
    lost = lost_with_answer(asked.answer).order_by().aggregate(first=Min("position"), last=Max("position"))
    return None if lost["first"] is None else (lost["first"], lost["last"])


def _strip(rows: list[Message], memory: MemoryMap, *, with_text: bool) -> Strip:
    in_order = sorted(rows, key=lambda row: row.position)[-MOST_BARS:]
    return Strip.of(in_order, set(memory.totals), memory.edge, with_text=with_text)


_MOST_GAPS = 6


class Held(Protocol):
    """The attributes of a message in the memory that are looked at."""

    @property
    def position(self) -> int: ...

    @property
    def covers_from(self) -> int | None: ...

    @property
    def covers_to(self) -> int | None: ...


@dataclass(frozen=True, order=True)
class Gap:
    """Positions that the memory had not."""

    first: int

    last: int

    stand_in: int | None = field(default=None, compare=False)
    """The position of the summary, placeholder or copy that the memory had instead; None if it had nothing."""


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """The gaps of a past memory: positions that were gone, or that another message stood for; the newest first."""

    gone: list[Gap]

    stood_for: list[Gap]

    more_gone: int
    """The number of gaps that are not among ``gone``."""

    more_stood_for: int
    """The number of gaps that are not among ``stood_for``."""

    @classmethod
    def before(cls, end: int, memory: Iterable[Held], not_said: Collection[int] = ()) -> Gaps:
        """Return what a memory lacked of the positions below ``end``.

        Args:
            end: the position before which all had been said.
            memory: the messages that it had.
            not_said: positions of messages that nobody said; a gap does not begin or end with them.
        """
        held = list(memory)
        found = list(_split(_missing((row.position for row in held), end), _covers(held)))
        gone = [gap for gap in (_trimmed(gap, not_said) for gap in found if gap.stand_in is None) if gap is not None]
        stood_for = _by_stand_in(gap for gap in found if gap.stand_in is not None)
        return cls(
            gone=sorted(gone, reverse=True)[:_MOST_GAPS],
            stood_for=sorted(stood_for, reverse=True)[:_MOST_GAPS],
            more_gone=max(0, len(gone) - _MOST_GAPS),
            more_stood_for=max(0, len(stood_for) - _MOST_GAPS),
        )


def newest_missing(end: int, positions: Collection[int], most: int) -> list[int]:
    """Return the last positions below ``end`` that are not among ``positions``, not more than ``most``, ascending."""
    there = set(positions)
    return sorted(islice((position for position in range(end - 1, -1, -1) if position not in there), most))


def _missing(positions: Iterable[int], end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges below ``end`` that have none of ``positions``."""
    start = 0
    for position in sorted({*(position for position in positions if position < end), end}):
        if start < position:
            yield start, position - 1
        start = position + 1


def _covers(held: Iterable[Held]) -> list[Gap]:
    """Return the ranges that messages stand for, ascending, cut so that no two overlap."""
    found: list[Gap] = []
    ranges = sorted(
        (row.covers_from, row.covers_to, row.position)
        for row in held
        if row.covers_from is not None and row.covers_to is not None
    )
    for first, last, position in ranges:
        start = max(first, found[-1].last + 1) if found else first
        if start <= last:
            found.append(Gap(start, last, position))
    return found


def _split(missing: Iterable[tuple[int, int]], covers: list[Gap]) -> Iterator[Gap]:
    """Yield the missing ranges, cut where a message begins or ceases to stand for them."""
    reached = 0
    for first, last in missing:
        while reached < len(covers) and covers[reached].last < first:
            reached += 1
        at, index = first, reached
        while index < len(covers) and covers[index].first <= last:
            cover = covers[index]
            if at < cover.first:
                yield Gap(at, cover.first - 1)
            end = min(last, cover.last)
            yield Gap(max(at, cover.first), end, cover.stand_in)
            at, index = end + 1, index + 1
        if at <= last:
            yield Gap(at, last)


def _trimmed(gap: Gap, not_said: Collection[int]) -> Gap | None:
    first, last = gap.first, gap.last
    while first <= last and first in not_said:
        first += 1
    while first <= last and last in not_said:
        last -= 1
    return Gap(first, last) if first <= last else None


def _by_stand_in(gaps: Iterable[Gap]) -> list[Gap]:
    """Return one gap for each message that stands for others, from the first to the last of them that was missing."""
    found: dict[int | None, Gap] = {}
    for gap in gaps:
        known = found.get(gap.stand_in)
        found[gap.stand_in] = gap if known is None else Gap(known.first, gap.last, gap.stand_in)
    return list(found.values())


Key = TypeVar("Key", bound=Hashable)

# Of each kind; all of them are links, so a page of them is long enough.
_MOST_CHANGED = 50


@dataclass(frozen=True, kw_only=True)
class Difference(Generic[Key]):
    """The changes that make one memory of another. No message is in two of the lists."""

    left: list[Key]
    """The messages that only the first memory has, in its order."""

    came: list[Key]
    """The messages that only the second memory has, in its order."""

    moved: list[Key]
    """The messages that both have in another order: as few as possible, in the order of the second memory."""


def difference(before: Sequence[Key], after: Sequence[Key]) -> Difference[Key]:
    """Return what changes the memory ``before`` into ``after``. Neither has a message twice."""
    places = {key: place for place, key in enumerate(before)}
    there = set(after)
    both = [key for key in after if key in places]
    stays = _longest_ascending([places[key] for key in both])
    return Difference(
        left=[key for key in before if key not in there],
        came=[key for key in after if key not in places],
        moved=[key for key in both if places[key] not in stays],
    )


def _longest_ascending(numbers: Sequence[int]) -> set[int]:
    """Return the numbers of a longest ascending part of ``numbers``, which are all different."""
    # Not by difflib: it takes the longest run first, so from 1 2 3 4 to 2 4 3 1 all but one would have moved.
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        length = bisect_left(ends, number)
        before[number] = ends[length - 1] if length else None
        ends[length : length + 1] = [number]
    found = set()
    last = ends[-1] if ends else None
    while last is not None:
        found.add(last)
        last = before[last]
    return found


@dataclass(frozen=True, kw_only=True)
class ChangedMessages:
    """The messages of one kind of change: the last ones, if there are too many to show."""

    messages: list[ShownMessage]

    count: int

    @property
    def left_out(self) -> int:
        """The number of messages that are not shown."""
        return self.count - len(self.messages)


@dataclass(frozen=True, kw_only=True)
class ShownDifference:
    """The difference of two memories of one conversation, as a page shows it."""

    left: ChangedMessages
    came: ChangedMessages
    moved: ChangedMessages

    staying: int
    """The number of messages that both have."""

    @classmethod
    def read(
        cls, conversation: Conversation, before: Sequence[int], after: Sequence[int], *, with_text: bool
    ) -> ShownDifference:
        """Read the messages that differ between two memories.

        Args:
            conversation: whose memories they are.
            before: the positions of the earlier one, in memory order.
            after: the positions of the later one, in memory order.
            with_text: whether this reader may read what the messages say.
        """
        again = _said_again(conversation, before, after)
        found = difference(before, [again.get(position, position) for position in after])
        wanted = {*found.left[-_MOST_CHANGED:], *found.came[-_MOST_CHANGED:], *found.moved[-_MOST_CHANGED:]}
        rows = conversation.messages.filter(position__in=wanted).order_by("position")
        read: Any = read_bounded(rows) if with_text else without_text(rows)
        messages = {row.position: shown(row, with_text=with_text) for row in read}

        def changed(positions: list[int]) -> ChangedMessages:
            last = [messages[position] for position in positions[-_MOST_CHANGED:] if position in messages]
            return ChangedMessages(messages=last, count=len(positions))

        return cls(
            left=changed(found.left),
            came=changed(found.came),
            moved=changed(found.moved),
            staying=len(after) - len(found.came),
        )

    @property
    def is_empty(self) -> bool:
        """Whether the two memories are the same."""
        return not (self.left.count or self.came.count or self.moved.count)


def _said_again(conversation: Conversation, before: Sequence[int], after: Sequence[int]) -> dict[int, int]:
    """Return the messages that a rewrite put elsewhere: the earlier position by the later one.

    A row keeps its place in the memory, so a rewrite that moves a message adds a row that says the same. The database
    compares what they say: nothing of it is read.
    """
    rows = conversation.messages.annotate(said=MD5("text"), stored=MD5("payload"))
    keys = ("type", "said", "stored", "position")
    put = rows.filter(position__in=set(after) - set(before), origin__in=(Origin.REWRITE, Origin.COPY))
    later = {tuple(key): position for *key, position in put.order_by("position").values_list(*keys)}
    if not later:
        return {}
    gone = rows.filter(position__in=set(before) - set(after)).order_by("position").values_list(*keys)
    earlier = {tuple(key): position for *key, position in gone}
    return {position: earlier[key] for key, position in later.items() if key in earlier}


# Longer JSON is offered as a file: nobody copies it out of a box.
_MOST_JSON_CHARS = 100_000


@dataclass(frozen=True, kw_only=True)
class JsonText:
    """A memory as the JSON of one format."""

    key: str

    name: str
    """The title of the format."""

    text: str = ""
    """The JSON; empty if it is too long to show, or the format cannot express the memory."""

    problem: str = ""
    """The reason why the format cannot express the memory; empty if it can."""


def json_texts(rows: list[Message], fresh: list[int], refused: dict[str, str]) -> list[JsonText]:
    """Return the JSON of each format.

    Args:
        rows: the memory.
        fresh: the indexes of the messages before which nothing has changed.
        refused: the formats known to be unable to express it, and why.
    """
    # A format adds about a hundred characters to each message.
    is_long = sum(100 + len(row.text) + len(row.payload or "") for row in rows) > _MOST_JSON_CHARS
    messages = [] if is_long else [row.message for row in rows]
    found = []
    for key, format in message_formats().items():
        text, problem = "", refused.get(key, "")
        if not (is_long or problem):
            try:
                text = lay_out(dumps(format.write_memory(messages, fresh)))
            except UnsupportedContentError as error:
                problem = str(error)
        found.append(JsonText(key=key, name=format.title, text=text, problem=problem))
    return found
