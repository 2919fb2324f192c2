"""The messages that two versions of a memory share, and the places of new ones between them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence

__all__ = ["longest_common_subsequence", "orders_between"]

# If almost everything repeats, the longest common subsequence takes too long.
_MOST_PAIRS = 200_000


def longest_common_subsequence(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of indexes ``(in old, in new)``, both ascending, of the most elements that keep their order.

    If elements repeat thousands of times each, the pairs may be fewer than the most.

    Source: Hunt and Szymanski, "A fast algorithm for computing longest common subsequences", 1977. Fast where few
    elements repeat, as in conversations.
    """
    start, end = 0, 0  # usually they share most at both ends, and repeated elements there would cost most
    shortest = min(len(old), len(new))
    while start < shortest and old[start] == new[start]:
        start += 1
    while end < shortest - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle = _between(old[start : len(old) - end], new[start : len(new) - end])
    return [
        *((index, index) for index in range(start)),
        *((start + index, start + place) for index, place in middle),
        *((len(old) - end + index, len(new) - end + index) for index in range(end)),
    ]


def _between(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index in range(len(new) - 1, -1, -1):
        places[new[index]].append(index)  # descending, so that one old element never pairs twice
    if sum(len(places.get(element, ())) for element in old) > _MOST_PAIRS:
        return _greedy(old, places)
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


def _greedy(old: Sequence[Hashable], places: dict[Hashable, list[int]]) -> list[tuple[int, int]]:
    """Return a common subsequence, perhaps not the longest: each element takes the first place after the last taken."""
    pairs: list[tuple[int, int]] = []
    last = -1
    for index, element in enumerate(old):
        left = places.get(element, [])
        while left and left[-1] <= last:
            left.pop()
        if left:
            last = left.pop()
            pairs.append((index, last))
    return pairs


def orders_between(count: int, low: int, high: int) -> list[int] | None:
    """Return ``count`` ascending numbers strictly between ``low`` and ``high``, evenly spread; None without room."""
    step = (high - low) // (count + 1)
    return [low + step * (index + 1) for index in range(count)] if step > 0 else None
