"""The difference of two memories: what left, what came and what moved."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models.functions import MD5

from chatmemory.admin.display.bounded_rows import read_bounded, without_text
from chatmemory.admin.display.message import ShownMessage, shown
from chatmemory.models import Conversation, Origin

__all__ = ["Difference", "ShownDifference", "difference"]

Key = TypeVar("Key", bound=Hashable)

# Of each kind; all of them are links, so a page of them is long enough.
_MOST_SHOWN = 50


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
        wanted = {*found.left[-_MOST_SHOWN:], *found.came[-_MOST_SHOWN:], *found.moved[-_MOST_SHOWN:]}
        rows = conversation.messages.filter(position__in=wanted).order_by("position")
        read: Any = read_bounded(rows) if with_text else without_text(rows)
        messages = {row.position: shown(row, with_text=with_text) for row in read}

        def changed(positions: list[int]) -> ChangedMessages:
            last = [messages[position] for position in positions[-_MOST_SHOWN:] if position in messages]
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
