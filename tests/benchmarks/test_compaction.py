"""What summaries and windows cost: the simulation, where it can be reckoned by hand, and the report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.compaction.heads import Anchored
from benchmarks.compaction.report import markdown, ratios
from benchmarks.compaction.ways import LIMITS, WAYS
from benchmarks.prompt_cache.conversations import Kind
from benchmarks.worker import in_worker
from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.core.entries import Entry
from chatmemory.core.window import Window, WindowKind
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow  # what its tests share

RESULTS = json.loads((ROOT / "benchmarks/compaction/results.json").read_text(encoding="utf-8"))


def test_the_report_has_the_median_of_the_rounds() -> None:
    rounds = [{"engine": "sqlite", "round": number, "ratio": ratio} for number, ratio in enumerate([1.0, 1.5, 1.1])]
    results = {"machine": {"cpu": "One", "cores": 2}, "costs": [], "additions": rounds, "plans": [], "turns": []}
    text = markdown(results)
    assert "| engine | ratio |" in text
    assert "| sqlite | 1.10 |" in text


@pytest.fixture(scope="module")
def simulated() -> dict[tuple[int, str], dict[str, Any]]:
    """The figures of ten turns with tools, by limit and way: they fill 4,000 tokens, but not 64,000."""
    rows = in_worker("sqlite", "benchmarks.compaction.costs.measure_costs", kind="tools", turns=10)
    return {(row["limit"], row["way"]): row for row in rows}


def test_every_way_costs_the_same_until_the_window_is_full(simulated: dict[tuple[int, str], dict[str, Any]]) -> None:
    assert simulated.keys() == {(limit, way) for limit in LIMITS for way in WAYS}
    plain, *others = ({**simulated[64_000, way], "way": ""} for way in WAYS)
    assert others == [plain] * len(others)
    assert plain["cached"] > plain["full"] > plain["read"] == plain["written"] == 0


def test_only_summaries_are_read_and_written(simulated: dict[tuple[int, str], dict[str, Any]]) -> None:
    for way in WAYS:
        row = simulated[4_000, way]
        assert bool(row["summaries"]) == WAYS[way].summarizes
        # A summary has a tenth of the limit, and is made of at least twice as much.
        assert row["written"] == pytest.approx(row["summaries"] * 400, rel=0.1)
        assert row["read"] >= 2 * row["written"]


def test_a_head_stays_and_the_turns_behind_it_leave() -> None:
    window = Window(kind=WindowKind.MESSAGES, limit=10, low_water=70, whole_turns=True)
    turns = [message for number in range(5) for message in (UserMessage(f"Q{number}"), AiMessage(f"A{number}"))]
    entries = [Entry(message, 1) for message in [SystemMessage("S"), *turns]]
    memory = Anchored(entries, total=len(entries), window=window, keep_first=40)
    memory.evict()
    assert [entry.message.text for entry in memory.entries()] == ["S", "Q0", "A0", "Q1", "A1", "Q4", "A4"]


def test_a_ratio_has_all_that_is_paid_for() -> None:
    plain = {"full": 100, "cached": 1000, "read": 0, "written": 0}
    summarized = {"full": 50, "cached": 500, "read": 100, "written": 10}
    ways = {"chat": plain, "long": summarized}
    rows = [{"kind": k, "limit": n, "way": way, **row} for k in Kind for n in LIMITS for way, row in ways.items()]
    assert ratios(rows, "long") == ["1.20"] * 6  # (50 + 50 + 100 + 40) / (100 + 100)
    assert ratios(rows, "long", cached=0.5, output=8) == ["0.80"] * 6  # (50 + 250 + 100 + 80) / (100 + 500)


def test_the_report_is_that_of_the_results() -> None:
    assert (ROOT / "benchmarks/compaction/RESULTS.md").read_text(encoding="utf-8") == markdown(RESULTS)


@pytest.mark.parametrize(
    ("page", "line", "way"),
    [
        *(("windows", f'`"{preset}"`', preset) for preset in ("langchain4j", "chat", "agent", "long")),
        ("compaction", "`compact_at=80, compact_keep=50`", "early"),
        ("compaction", '`preset="long"`: 95 and 30', "long"),
    ],
)
def test_the_docs_have_the_figures_of_the_last_run(page: str, line: str, way: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    assert f"| {line} | {' | '.join(ratios(RESULTS['costs'], way))} |" in text


@pytest.mark.parametrize("way", ["low", "head"])
def test_the_docs_have_the_range_of_what_is_compared(way: str) -> None:
    found = ratios(RESULTS["costs"], way)
    text = (ROOT / "docs/windows.md").read_text(encoding="utf-8")
    assert f'{min(found)} to {max(found)} of what the preset `"chat"` costs' in " ".join(text.split())
