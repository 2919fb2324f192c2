"""The constants of the ranking, and what follows from them."""

from __future__ import annotations

from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.contrib.search.score import LENGTH_BITS, MOST_WEIGHT, NORMS, length_class, weight
from tests.search.oracle import Tokens, ranking


@pytest.mark.slow
@given(st.integers(1, 10**8), st.data())
def test_a_weight_is_the_power_of_idf(documents: int, data: Any) -> None:
    found = data.draw(st.integers(1, documents))
    idf, most = (log2((documents + 1) / (count + 0.5)) for count in (found, 1))
    # A logarithm is rounded down to a 64th.
    least, largest = (MOST_WEIGHT * max(0, value) ** 1.5 for value in ((idf - 1 / 64) / most, idf / (most - 1 / 64)))
    assert max(1, int(least)) <= weight(found, documents) <= max(1, min(MOST_WEIGHT, largest))


@given(st.integers(1, 10**8), st.data())
def test_a_word_in_more_messages_weighs_no_more(documents: int, data: Any) -> None:
    found = data.draw(st.integers(1, documents))
    assert MOST_WEIGHT == weight(1, documents) >= weight(found, documents) >= weight(documents, documents) >= 1


def test_a_length_has_two_classes_for_each_doubling() -> None:
    assert [length_class(tokens) for tokens in (1, 2, 3, 4, 5, 6, 8, 11, 12, 16, 1024)] == [
        *(1, 3, 4, 5, 5, 6, 7, 7, 8, 9, 21),
    ]
    assert length_class(10**9) == (1 << LENGTH_BITS) - 1


def test_a_message_sixteen_times_as_long_has_half_the_norm() -> None:
    assert NORMS[0] == 0
    for short, long in zip(NORMS[1:], NORMS[9:], strict=False):
        assert abs(short - 2 * long) <= 1
    assert list(NORMS[1:]) == sorted(NORMS[1:], reverse=True)


def found(texts: list[str], query: str) -> list[tuple[int, int]]:
    """Return the scores and positions of texts, in which words are related if they begin with the same two letters."""
    documents: list[Tokens] = [("one", position, text.split()) for position, text in enumerate(texts)]
    rows = ranking(documents, query.split(), lambda word: word[:2] if len(word) >= 2 else None)
    return [(score, position) for score, _, position in rows]


class TestARanking:
    def test_finds_related_words_and_the_neighbours_of_their_message(self) -> None:
        [(best, first), (neighbour, second), (same, third)] = found(["x", "flying", "y", "z"], "fly")
        assert (first, second, third) == (1, 2, 0)
        assert neighbour == same == best * 2 // 3

    def test_counts_each_word_once(self) -> None:
        assert (
            found(["fly fly flight", "a", "b c d"], "fly flew flown flight")[0]
            == found(["fly go so", "a", "b c d"], "fly")[0]
        )

    def test_prefers_rare_words_and_short_messages(self) -> None:
        texts = ["tea", "", "", "tea", "", "", "rum", "", "", "rum b c d e f g h"]
        assert [position for _, position in found([*texts, "", "tea"], "rum tea")] == [6, 9, 11, 3, 0]

    def test_does_not_lend_to_another_conversation(self) -> None:
        documents: list[Tokens] = [("a", 0, ["x"]), ("a", 1, ["tea"]), ("b", 0, ["y"]), ("b", 2, ["z"])]
        rows = ranking(documents, ["tea"], lambda word: None)
        assert [(conversation, position) for _, conversation, position in rows] == [("a", 1), ("a", 0)]

    @pytest.mark.parametrize("query", ["", "nothing"])
    def test_finds_nothing_without_a_word(self, query: str) -> None:
        assert found(["a", "b"], query) == []
