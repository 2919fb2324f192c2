"""The report of what summaries cost."""

from __future__ import annotations

from benchmarks.compaction.report import markdown


def test_it_has_the_median_of_the_rounds() -> None:
    rounds = [{"engine": "sqlite", "round": number, "ratio": ratio} for number, ratio in enumerate([1.0, 1.5, 1.1])]
    results = {"machine": {"cpu": "One", "cores": 2}, "additions": rounds, "plans": [], "turns": []}
    text = markdown(results)
    assert "| engine | ratio |" in text
    assert "| sqlite | 1.10 |" in text
