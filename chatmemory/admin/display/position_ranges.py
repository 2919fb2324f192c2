"""Positions of messages in few characters."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext

__all__ = ["position_ranges"]

_MOST_RANGES = 4


def position_ranges(positions: Iterable[int]) -> str:
    """Return positions as ranges: ``0, 155–175``. Of more than four only the last four are there, after ``…``."""
    ranges: list[tuple[int, int]] = []
    for position in sorted(set(positions)):
        if ranges and ranges[-1][1] == position - 1:
            ranges[-1] = ranges[-1][0], position
        else:
            ranges.append((position, position))
    said = [str(first) if first == last else f"{first}–{last}" for first, last in ranges]
    return gettext(", ").join(said if len(said) <= _MOST_RANGES else ["…", *said[-_MOST_RANGES:]])
