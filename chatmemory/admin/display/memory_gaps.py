"""The messages that a memory no longer had, as ranges of positions, without reading them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

__all__ = ["Gap", "Gaps", "Held", "newest_missing"]

_MOST_SHOWN = 6


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
            gone=sorted(gone, reverse=True)[:_MOST_SHOWN],
            stood_for=sorted(stood_for, reverse=True)[:_MOST_SHOWN],
            more_gone=max(0, len(gone) - _MOST_SHOWN),
            more_stood_for=max(0, len(stood_for) - _MOST_SHOWN),
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
