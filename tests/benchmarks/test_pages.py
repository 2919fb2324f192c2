"""The benchmark of the admin's pages: it runs, and its report says what it found."""

from __future__ import annotations

import pytest

from benchmarks.pages.report import markdown
from benchmarks.worker import in_worker


@pytest.mark.slow
def test_each_page_of_both_conversations_is_measured() -> None:
    arguments = {"engine": "sqlite", "rounds": 1, "short": 60, "long": 120}
    pages = in_worker("sqlite", "benchmarks.pages.measuring.measure_pages", **arguments)
    assert [row["page"] for row in pages] == [
        "memory",
        "history, newest",
        "history, middle",
        "history, beginning",
        "what the model had, last answer",
        "what the model had, middle",
    ]
    assert all(row["ratio"] == row["long_ms"] / row["short_ms"] > 0 for row in pages)
    assert all(row["cpu_ratio"] == row["cpu_long_ms"] / row["cpu_short_ms"] > 0 for row in pages)


def test_the_report_compares_the_long_with_the_short() -> None:
    figures = {"short_ms": 20, "long_ms": 28, "ratio": 1.4, "cpu_short_ms": 10, "cpu_long_ms": 13, "cpu_ratio": 1.3}
    pages = [{"engine": "sqlite", "page": "memory", **figures}]
    text = markdown({"machine": {"cpu": "One", "cores": 2}, "short": 100, "long": 100_000, "pages": pages})
    assert "ms at 100 | ms at 100 000 | ratio" in text
    assert [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")] == [
        "sqlite",
        "memory",
        *("20.0", "28.0", "1.40"),
        *("10.0", "13.0", "1.30"),
    ]
