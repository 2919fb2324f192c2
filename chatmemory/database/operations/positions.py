"""The messages that two versions of a memory share, and the places of new ones between them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise

__all__ = ["longest_common_subsequence", "orders_between", "pairs_between"]

# If almost everything repeats, the longest common subsequence takes too long.
_MOST_PAIRS = 200_000


def longest_common_subsequence(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of indexes ``(in old, in new)``, both ascending, of the most elements that keep their order.

    If there are several ways, the pairs end as early in ``new`` as possible, and begin as late in ``old`` as possible:
    a window evicts its oldest messages, and what is said is added at the end. So after "a b X" the last X of "b X X" is
    new.

    If elements repeat thousands of times each, the pairs may be fewer than the most.

    Source: Hunt and Szymanski, "A fast algorithm for computing longest common subsequences", 1977. Fast where few
    elements repeat, as in conversations.
    """
    if old == new[: len(old)]:  # usually nothing had to go
        return [(index, index) for index in range(len(old))]
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index in range(len(new) - 1, -1, -1):
        places[new[index]].append(index)  # descending, so that one old element never pairs twice
    if sum(len(places.get(element, ())) for element in old) > _MOST_PAIRS:
        return _start_and_end(old, new)
    ends: list[int] = []  # ends[k]: the smallest index in new at which a common subsequence of length k + 1 ends
    chains: list[tuple[int, int, tuple | None]] = []  # type: ignore[type-arg]
    for index, element in enumerate(old):
        for place in places.get(element, ()):
            length = bisect_left(ends, place)
            chain = (index, place, chains[length - 1] if length else None)
            if length == len(ends):
                ends.append(place)
                chains.append(chain)
            else:
                ends[length] = place
                chains[length] = chain
    pairs = []
    chain_: tuple | None = chains[-1] if chains else None  # type: ignore[type-arg]
    while chain_:
        index, place, chain_ = chain_
        pairs.append((index, place))
    return pairs[::-1]


def pairs_between(
    pairs: Sequence[tuple[int, int]], old: Sequence[Hashable], new: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """Return further pairs of indexes ``(in old, in new)``, of equal elements between the same two of ``pairs``."""
    found = []
    for (old_start, new_start), (old_end, new_end) in pairwise([(-1, -1), *pairs, (len(old), len(new))]):
        between = longest_common_subsequence(old[old_start + 1 : old_end], new[new_start + 1 : new_end])
        found += [(old_start + 1 + index, new_start + 1 + place) for index, place in between]
    return found


def _start_and_end(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the pairs of the start that both share, and of the longest end of ``old`` that ``new`` has after it.

    Source: Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977.
    """
    start, shortest = 0, min(len(old), len(new))
    while start < shortest and old[start] == new[start]:
        start += 1
    text = [*reversed(old[start:]), object(), *reversed(new[start:])]
    lengths = [0] * len(text)  # of the longest part of the text that ends at an index, and with which the text begins
    for index in range(1, len(text)):
        length = lengths[index - 1]
        while length and text[index] != text[length]:
            length = lengths[length - 1]
        lengths[index] = length + (text[index] == text[length])
    ends = lengths[: len(old) - start : -1]
    end = max(ends, default=0)
    place = start + ends.index(end) if ends else start
    return [
        *((index, index) for index in range(start)),
        *((len(old) - end + index, place + index) for index in range(end)),
    ]


def orders_between(count: int, low: int, high: int) -> list[int] | None:
    """Return ``count`` ascending numbers strictly between ``low`` and ``high``, evenly spread; None without room."""
    step = (high - low) // (count + 1)
    return [low + step * (index + 1) for index in range(count)] if step > 0 else None
