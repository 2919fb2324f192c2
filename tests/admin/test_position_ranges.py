"""Positions are said in few characters."""

from __future__ import annotations

import pytest

from chatmemory.admin.display.passages import position_ranges


@pytest.mark.parametrize(
    ("positions", "said"),
    [
        ([], ""),
        ([7], "7"),
        ([3, 1, 2], "1–3"),
        ([0, 155, 156, 157], "0, 155–157"),
        ([0, 2, 4, 6], "0, 2, 4, 6"),
        ([0, 2, 4, 6, 8, 9], "…, 2, 4, 6, 8–9"),
    ],
)
def test_ranges(positions: list[int], said: str) -> None:
    assert position_ranges(positions) == said
