"""What a rewritten memory has in common with the old one."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.database.operations.plan import longest_common_subsequence, orders_between, pairs_between

SEQUENCES = st.lists(st.integers(0, 4), max_size=12)


def naive_length(one: list[int], other: list[int]) -> int:
    """The textbook's table."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


class TestLongestCommonSubsequence:
    @given(SEQUENCES, SEQUENCES)
    def test_is_a_common_subsequence_and_the_longest(self, old: list[int], new: list[int]) -> None:
        pairs = longest_common_subsequence(old, new)
        assert all(old[i] == new[j] for i, j in pairs)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
        assert len(pairs) == naive_length(old, new)

    @given(SEQUENCES, SEQUENCES)
    def test_ends_first_in_the_new_and_last_in_the_old(self, old: list[int], new: list[int]) -> None:
        pairs = longest_common_subsequence(old, new)
        if old != new[: len(old)] and pairs:
            (first, _place), (_index, last) = pairs[0], pairs[-1]
            assert naive_length(old, new[:last]) < len(pairs)
            assert naive_length(old[first + 1 :], new[: last + 1]) < len(pairs)

    @given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(0, 2))
    def test_of_a_window_that_goes_on_is_what_stays(self, window: list[int], said: int) -> None:
        """The system message, and all but the oldest; what is said comes after them."""
        old, new = [9, *window], [9, *window[1:], said]
        if old != new:
            stay = [(0, 0), *((index + 1, index) for index in range(1, len(window)))]
            assert longest_common_subsequence(old, new) == stay

    @given(SEQUENCES)
    def test_of_a_sequence_with_itself_is_all_of_it(self, sequence: list[int]) -> None:
        assert longest_common_subsequence(sequence, sequence) == [(i, i) for i in range(len(sequence))]

    def test_a_summary_in_front_keeps_the_rest(self) -> None:
        assert longest_common_subsequence("abcdef", "Sdef") == [(3, 1), (4, 2), (5, 3)]

    def test_nothing_in_common(self) -> None:
        assert longest_common_subsequence("abc", "xyz") == []
        assert longest_common_subsequence("", "xyz") == []

    def test_ten_thousand_different_elements(self) -> None:
        old = list(range(10_000))
        assert len(longest_common_subsequence(old, old[5_000:] + old[:5_000])) == 5_000

    @pytest.mark.parametrize("old", [[0] * 3000, [0, 1] * 1500, [*range(1, 1501), *[0] * 1500]])
    def test_thousands_of_equal_elements(self, old: list[int]) -> None:
        for before, after, kept in (
            (old, [-1, *old[1000:], -2], range(1, 2001)),
            (["system", *old, "X"], ["system", *old[1:], "X", "X"], range(3001)),
            (old, [*old[:1000], -1, *old[1002:]], [*range(1000), *range(1001, 2999)]),
        ):
            pairs = longest_common_subsequence(before, after)
            assert all(before[i] == after[j] for i, j in pairs)
            assert all(a[0] < b[0] for a, b in pairwise(pairs))
            assert [place for _index, place in pairs] == list(kept)


class TestPairsBetween:
    @pytest.mark.slow
    @given(SEQUENCES, SEQUENCES, st.randoms())
    def test_cross_none_of_the_pairs_and_are_the_most(self, old: list[int], new: list[int], random: Random) -> None:
        count = random.randint(0, min(len(old), len(new)))
        pairs = list(zip(*(sorted(random.sample(range(len(side)), count)) for side in (old, new)), strict=True))
        more = pairs_between(pairs, old, new)
        assert all(old[i] == new[j] for i, j in more)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(sorted([*pairs, *more])))
        ends = pairwise([(-1, -1), *pairs, (len(old), len(new))])
        assert len(more) == sum(naive_length(old[a + 1 : c], new[b + 1 : d]) for (a, b), (c, d) in ends)

    def test_of_a_message_that_only_changed_its_metadata(self) -> None:
        assert pairs_between([(0, 0), (2, 2)], "abcd", "abcd") == [(1, 1), (3, 3)]


class TestOrdersBetween:
    @given(st.integers(1, 50), st.integers(-(2**40), 2**40), st.integers(0, 10_000))
    def test_ascending_and_strictly_between(self, count: int, low: int, gap: int) -> None:
        high = low + gap
        orders = orders_between(count, low, high)
        if gap <= count:
            assert orders is None
        else:
            assert orders is not None
            assert len(orders) == count
            assert [low, *orders, high] == sorted({low, *orders, high})

    def test_evenly_spread(self) -> None:
        assert orders_between(3, 0, 400) == [100, 200, 300]

    def test_the_last_room_is_used(self) -> None:
        assert orders_between(1, 5, 7) == [6]
        assert orders_between(2, 5, 7) is None
