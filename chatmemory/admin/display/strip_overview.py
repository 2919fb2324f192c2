"""All messages of a long conversation in a few bars, above the strip of those that the page shows.

What the memory has is known exactly. The tokens of what left it are estimated by samples where there are many messages,
so that an overview of a million costs what one of some thousands does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.memory_map import MemoryMap

__all__ = ["MOST_COUNTED", "Bin", "StripOverview", "sampled"]

MOST_COUNTED = 2_000
"""The most messages whose tokens are counted, not estimated."""

_MOST_BINS = 60
_SAMPLES = 5
_HEIGHT = 28
_STEP = 8

# Multiples of it, modulo 1, are spread evenly and repeat in no rhythm: turns do.
_GOLDEN = 0.618034


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Some messages, one after the other. Lengths are in the overview's own units, from its top left."""

    first: int
    """Position of the first message."""

    x: int
    y: int
    height: int

    retained_y: int
    retained_height: int
    """The part of the height that the memory has."""

    name: str
    """The messages in words: their positions, their tokens, and how many of these the memory has."""

    @property
    def left(self) -> int:
        """The x at which its part of the overview begins, a little left of the bar."""
        return self.x - 1


@dataclass(frozen=True, kw_only=True)
class StripOverview:
    """All messages of a conversation."""

    bins: list[Bin]

    messages_per_bin: int

    is_estimated: bool
    """Whether the tokens are estimated."""

    shown_x: float
    """The x at which the messages of the strip begin."""

    shown_width: float

    bar_width = _STEP - 2
    step = _STEP
    height = _HEIGHT

    @property
    def width(self) -> int:
        """The width of all bins, in the overview's own units."""
        return len(self.bins) * _STEP

    @classmethod
    def of(cls, total: int, evicted: Mapping[int, int], memory: MemoryMap, shown: range) -> StripOverview:
        """Return the overview of ``total`` messages.

        Args:
            total: the number of positions, above zero.
            evicted: the tokens of the evicted messages at the positions :func:`sampled`, by position.
            memory: the memory as it is now.
            shown: the positions on the strip.
        """
        size = _size(total)
        is_estimated = total > MOST_COUNTED
        counts, retained = _retained(total, memory)
        positions = sampled(total)
        looked_at, found = [0] * len(counts), [0] * len(counts)
        for position in positions:
            if position not in memory.totals:
                looked_at[position // size] += 1
                found[position // size] += evicted.get(position, 0)
        tokens = []
        for index, kept in enumerate(retained):
            left = min(size, total - index * size) - counts[index]
            tokens.append(kept + (round(found[index] * left / looked_at[index]) if looked_at[index] else 0))
        per_unit = _STEP / size
        start = shown.start * per_unit
        # The last bin may be of few messages, and is as wide as any.
        end = -(-total // size) * _STEP if shown.stop >= total else shown.stop * per_unit
        return cls(
            bins=_bins(total, tokens, retained, is_estimated=is_estimated),
            messages_per_bin=size,
            is_estimated=is_estimated,
            shown_x=round(start, 2),
            shown_width=round(max(end - start, 2), 2),
        )


def sampled(total: int) -> Sequence[int]:
    """Return the positions of the messages that tell how many tokens ``total`` messages have."""
    if total <= MOST_COUNTED:
        return range(total)
    size = _size(total)
    return [
        start + place
        for index, start in enumerate(range(0, total, size))
        for place in _spread(index, min(size, total - start))
    ]


def _spread(index: int, size: int) -> Iterable[int]:
    """Return the samples among the ``size`` messages of a bin, which has a number of its own."""
    if size < 2 * _SAMPLES:
        return range(min(size, _SAMPLES))  # two multiples could be as near as one message
    return (int((number + index * _SAMPLES) * _GOLDEN % 1 * size) for number in range(_SAMPLES))


def _size(total: int) -> int:
    return -(-total // _MOST_BINS)


def _retained(total: int, memory: MemoryMap) -> tuple[list[int], list[int]]:
    """Return how many messages of each bin the memory has, and their tokens."""
    size = _size(total)
    bins = -(-total // size)
    counts, tokens = [0] * bins, [0] * bins
    sums = [0, *memory.totals.values()]
    for position, (before, after) in zip(memory.totals, pairwise(sums), strict=True):
        index = min(position // size, bins - 1)  # a message may have come since the conversation was read
        counts[index] += 1
        tokens[index] += after - before
    return counts, tokens


def _bins(total: int, tokens: list[int], retained: list[int], *, is_estimated: bool) -> list[Bin]:
    size = _size(total)
    highest = max(tokens) or 1
    messages = gettext("Messages %(first)s–%(last)s")
    bins = []
    for index, (all_tokens, kept) in enumerate(zip(tokens, retained, strict=True)):
        height = max(2, round(sqrt(all_tokens / highest) * _HEIGHT)) if all_tokens else 0
        kept_height = max(1, round(height * kept / all_tokens)) if kept else 0
        first, last = index * size, min(total, (index + 1) * size) - 1
        name = [
            messages % {"first": grouped(first), "last": grouped(last)},
            _tokens(all_tokens, is_estimated=is_estimated),
            _in_memory(kept, all_tokens),
        ]
        bins.append(
            Bin(
                first=first,
                x=index * _STEP + 1,
                y=_HEIGHT - height,
                height=height,
                retained_y=_HEIGHT - kept_height,
                retained_height=kept_height,
                name=" · ".join(name),
            )
        )
    return bins


def _tokens(number: int, *, is_estimated: bool) -> str:
    if is_estimated:
        about = ngettext("about %(tokens)s token", "about %(tokens)s tokens", number)
        return about % {"tokens": grouped(_rounded(number))}
    return ngettext("%(tokens)s token", "%(tokens)s tokens", number) % {"tokens": grouped(number)}


def _in_memory(kept: int, tokens: int) -> str:
    if not kept:
        return gettext("none in the memory")
    if kept == tokens:
        return gettext("all in the memory")
    return gettext("%(tokens)s of them in the memory") % {"tokens": grouped(kept)}


def _rounded(number: int) -> int:
    """Return an estimate with two digits, for more would be made up."""
    return int(float(f"{number:.1e}"))
