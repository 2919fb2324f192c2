"""Properties of what differs between two memories, and of what a memory no longer had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.admin.display.past_memory import difference, newest_missing

MEMORIES = st.lists(st.integers(0, 30), unique=True, max_size=20)


@pytest.mark.slow
@given(MEMORIES, MEMORIES)
def test_a_message_is_in_one_list_at_most(before: list[int], after: list[int]) -> None:
    found = difference(before, after)
    lists = [*found.left, *found.came, *found.moved]
    assert len(lists) == len(set(lists))
    assert set(found.left) == set(before) - set(after)
    assert set(found.came) == set(after) - set(before)
    assert set(found.moved) <= set(before) & set(after)


@given(MEMORIES, MEMORIES)
def test_what_did_not_move_kept_its_order(before: list[int], after: list[int]) -> None:
    found = difference(before, after)
    changed = {*found.left, *found.came, *found.moved}
    assert [key for key in before if key not in changed] == [key for key in after if key not in changed]


@given(MEMORIES)
def test_nothing_differs_from_itself(memory: list[int]) -> None:
    found = difference(memory, memory)
    assert (found.left, found.came, found.moved) == ([], [], [])


def test_one_that_jumped_over_others_is_the_one_that_moved() -> None:
    assert difference([1, 2, 3, 4], [4, 1, 2, 3]).moved == [4]


@given(st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 5))
def test_the_newest_missing_are_found(there: set[int], end: int, most: int) -> None:
    missing = [position for position in range(end) if position not in there]
    assert newest_missing(range(end - 1, -1, -1), there, most) == missing[len(missing) - min(most, len(missing)) :]
