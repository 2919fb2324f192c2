"""Properties of what differs between two memories, and of what a memory no longer had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.admin.display.past_memory import Gap, Gaps, difference, newest_missing

MEMORIES = st.lists(st.integers(0, 30), unique=True, max_size=20)


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


@given(MEMORIES, MEMORIES)
def test_as_few_as_possible_moved(before: list[int], after: list[int]) -> None:
    """By the simplest way to find the longest common part: a table."""
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for row, one in enumerate(before, 1):
        for column, other in enumerate(after, 1):
            above, beside = table[row - 1][column], table[row][column - 1]
            table[row][column] = table[row - 1][column - 1] + 1 if one == other else max(above, beside)
    assert len(difference(before, after).moved) == len(set(before) & set(after)) - table[-1][-1]


@given(MEMORIES)
def test_nothing_differs_from_itself(memory: list[int]) -> None:
    found = difference(memory, memory)
    assert (found.left, found.came, found.moved) == ([], [], [])


def test_one_that_jumped_over_others_is_the_one_that_moved() -> None:
    assert difference([1, 2, 3, 4], [4, 1, 2, 3]).moved == [4]


@dataclass(frozen=True)
class Row:
    """A message in a memory."""

    position: int
    covers_from: int | None = None
    covers_to: int | None = None


@st.composite
def rows(draw: Any) -> list[Row]:
    found = []
    for position in draw(st.sets(st.integers(0, 30), max_size=15)):
        ends = sorted(draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
        found.append(Row(position, *ends) if draw(st.booleans()) else Row(position))
    return found


def inside(gaps: list[Gap]) -> list[int]:
    return [position for gap in gaps for position in range(gap.first, gap.last + 1)]


@given(rows(), st.integers(0, 12))
def test_each_position_is_there_or_stood_for_or_gone(memory: list[Row], end: int) -> None:
    found = Gaps.before(end, memory)  # so few positions that all gaps are shown
    there = {row.position for row in memory}
    covered = {
        position
        for row in memory
        if row.covers_from is not None and row.covers_to is not None
        for position in range(row.covers_from, row.covers_to + 1)
    }
    gone = inside(found.gone)
    assert len(gone) == len(set(gone))
    assert found.more_gone == 0
    assert set(gone) == set(range(end)) - there - covered
    assert set(inside(found.stood_for)) >= (set(range(end)) - there) & covered


@given(st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 5))
def test_the_newest_missing_are_found(there: set[int], end: int, most: int) -> None:
    missing = [position for position in range(end) if position not in there]
    assert newest_missing(end, there, most) == missing[len(missing) - min(most, len(missing)) :]


def test_the_newest_gaps_are_shown_and_the_others_counted() -> None:
    found = Gaps.before(40, [Row(position) for position in range(1, 40, 2)])
    assert [gap.first for gap in found.gone] == [38, 36, 34, 32, 30, 28]
    assert found.more_gone == 14


def test_a_gap_neither_begins_nor_ends_with_what_nobody_said() -> None:
    found = Gaps.before(10, [Row(0), Row(9)], not_said={1, 2, 5, 8})
    assert found.gone == [Gap(3, 7)]
    assert Gaps.before(3, [Row(0), Row(2)], not_said={1}).gone == []
