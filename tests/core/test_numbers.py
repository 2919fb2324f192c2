"""Whole numbers from addresses."""

from __future__ import annotations

import pytest

from chatmemory.core.arguments import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("7", 7), ("007", 7), ("0" * 5000 + "7", 7), ("10", 10), ("11", None), ("9" * 5000, None)]
    + [(text, None) for text in ("", "-1", "+1", "1.0", "1e1", "1_0", " 1", "1 ", "x", "٣", "²", "一")],
)
def test_a_number_is_read_whatever_is_written(text: str, number: int | None) -> None:
    assert whole_number(text, most=10) == number


def test_a_number_without_a_bound_may_be_long() -> None:
    assert whole_number("9" * 18) == 10**18 - 1
    assert (whole_number("9" * 5000) or 0) >= 10**17
