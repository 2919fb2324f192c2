"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.compaction.ways import LIMITS, LONGEST_SUMMARY, WAYS
from benchmarks.prompt_cache.conversations import Kind
from benchmarks.prompt_cache.simulation import CACHED
from benchmarks.report import table

__all__ = ["markdown", "ratios"]

_OUTPUT = 4
"""The price of a token that the summarizer writes, where one of input that is not cached costs 1."""

_TITLES = {
    "additions": "An addition while a summary is being made, beside one in a conversation without (95th percentile)",
    "plans": "Plan and apply, without the model",
    "turns": "A turn of a conversation that is summarised: of a long history, beside a short one",
}


def markdown(results: dict[str, Any]) -> str:
    """Return a table for each measurement, of those that are timed with the median of its rounds."""
    parts = ["# What windows and summaries cost"]
    if results["costs"]:
        parts += _costs(results["costs"])
    if any(results[name] for name in _TITLES):
        parts.append(f"What follows was timed: {results['machine']['cpu']}, {results['machine']['cores']} cores.")
    for name, title in _TITLES.items():
        rows = results[name]
        if not rows:
            continue
        figures = [key for key in rows[0] if key not in ("engine", "round")]
        lines = [f"## {title}", "| engine | " + " | ".join(figures) + " |", "| --- |" + " --- |" * len(figures)]
        for engine, group in groupby(rows, key=lambda row: str(row["engine"])):
            rounds = list(group)
            cells = [f"{median(row[key] for row in rounds):,.2f}" for key in figures]
            lines.append(f"| {engine} | " + " | ".join(cells) + " |")
        parts += [lines[0], "\n".join(lines[1:])]
    return "\n\n".join(parts) + "\n"


def ratios(rows: list[dict[str, Any]], way: str, **prices: float) -> list[str]:
    """Return the price of the input under a way over that under ``chat``: of chat at each limit, then with tools.

    Args:
        rows: what ``measure_costs`` returned for both kinds.
        way: a key of ``WAYS``.
        prices: other prices of a ``cached`` token, and of one that the summarizer writes (``output``).
    """
    found = _by_cell(rows)
    cells = [found[kind, limit] for kind in Kind for limit in LIMITS]
    return [f"{_ratio(cell[way], cell['chat'], **prices):.2f}" for cell in cells]


def _ratio(row: dict[str, Any], base: dict[str, Any], **prices: float) -> float:
    return _price(row, **prices) / _price(base, **prices)


def _price(row: dict[str, Any], *, cached: float = CACHED, output: float = _OUTPUT) -> float:
    """Return the price of all input and of the summaries, in tokens of input that are not cached."""
    return float(row["full"] + cached * row["cached"] + row["read"] + output * row["written"])


def _by_cell(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
    cells: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["kind"], row["limit"]), {})[row["way"]] = row
    return cells


def _costs(rows: list[dict[str, Any]]) -> list[str]:
    def lines(cell: Callable[[dict[str, Any], dict[str, Any]], str], ways: list[str]) -> list[list[str]]:
        return [
            [kind, f"{limit:,}", *(cell(found[way], found["chat"]) for way in ways)]
            for (kind, limit), found in _by_cell(rows).items()
        ]

    first, every = ["conversation", "limit"], list(WAYS)
    summarizing = [key for key, way in WAYS.items() if way.summarizes]
    names = [WAYS[way].name for way in every]
    return [
        "## The price of the input",
        f"Simulated, so the same on every machine. 1.00 is the preset `chat` in the same row. A cached token costs "
        f"{CACHED}, another one 1. Summaries include what the summarizer reads, which is never cached, and what it "
        f"writes, at {_OUTPUT} for a token: a tenth of the limit each time, at most {LONGEST_SUMMARY} tokens. In "
        "brackets, the share of the input that came from the cache.",
        table(first + names, lines(lambda row, base: f"{_ratio(row, base):.2f} ({_cached_share(row):.1%})", every)),
        "## The mean fill of the window",
        "How much of the limit the model gets in a request.",
        table(first + names, lines(lambda row, _: f"{row['fill']:.0%}", every)),
        "## What the summarizer takes",
        "The number of summaries, and the summarizer's share of the price.",
        table(
            first + [WAYS[way].name for way in summarizing],
            lines(lambda row, _: f"{row['summaries']}, {_summarizers_share(row):.0%}", summarizing),
        ),
        "## The price of the input at other prices",
        "The ratio where a cached token costs 0.5, and where a token that the summarizer writes costs 8.",
        table(
            first + [WAYS[way].name for way in every if way != "chat"],
            lines(
                lambda row, base: f"{_ratio(row, base, cached=0.5):.2f}, {_ratio(row, base, output=8):.2f}",
                [way for way in every if way != "chat"],
            ),
        ),
    ]


def _cached_share(row: dict[str, Any]) -> float:
    return float(row["cached"] / (row["full"] + row["cached"]))


def _summarizers_share(row: dict[str, Any]) -> float:
    return float(row["read"] + _OUTPUT * row["written"]) / _price(row)
