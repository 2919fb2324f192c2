"""A bar for each day or month, as high as the square root of its number: one peak does not hide the other bars."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["Bar", "Chart"]

_FULL = 100
_LOWEST = 2
_WIDTH = 10


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The number of one day or month."""

    says: str
    """The day or month and its number."""

    address: str
    """Where its messages are listed; empty if the reader may not list them."""

    x: int
    """The left end of the space for it."""

    height: int
    """At most 100, and never so little that it cannot be seen, unless the number is 0."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """All bars of one kind, from the oldest to the newest."""

    label: StrOrPromise

    most: int
    """The highest of the numbers."""

    quarter: int
    """The number at half the height; a quarter of the number at the full height."""

    bars: list[Bar]

    @property
    def top(self) -> int:
        """The number at the full height."""
        return 4 * self.quarter

    @property
    def width(self) -> int:
        """The width of all bars."""
        return _WIDTH * len(self.bars)

    @classmethod
    def of(cls, label: StrOrPromise, steps: list[tuple[int, str, str]]) -> Chart:
        """Return the chart of steps: the number of each, what is said of it, and its address."""
        most = max(number for number, _, _ in steps)
        quarter = _round_up(max(1, -(-most // 4)))
        bars = [
            Bar(says=says, address=address, x=_WIDTH * index, height=_height(number, 4 * quarter))
            for index, (number, says, address) in enumerate(steps)
        ]
        return cls(label=label, most=most, quarter=quarter, bars=bars)


def _height(number: int, top: int) -> int:
    return max(_LOWEST, round(_FULL * sqrt(number / top))) if number else 0


def _round_up(number: int) -> int:
    """Return the next number that has two digits and then zeros."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit
