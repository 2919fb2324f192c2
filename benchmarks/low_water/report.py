"""The results as Markdown."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.low_water.marks import MARKED, PER_MESSAGE
from benchmarks.report import ENGINES, machine_line, table

__all__ = ["markdown"]


def markdown(results: dict[str, Any]) -> str:
    """Return the whole report, in sections."""
    asked = results["asked"]
    return (
        "\n\n".join(
            [
                "# Turns with a low-water mark",
                machine_line(
                    "benchmarks.low_water", results["machine"], readme="../README.md#turns-with-a-low-water-mark"
                ),
                f"{asked['turns']} turns after {asked['history']} messages, {asked['rounds']} times. Milliseconds: the "
                "median of the runs.",
                "## Turns",
                table(["engine", "window", PER_MESSAGE, MARKED, "ratio", "ratio of each run"], _rows(results, _turns)),
                "## Additions with a mark of 70",
                table(
                    ["engine", "window", "all", "that evict", "ratio", "slowest", "messages evicted at once"],
                    _rows(results, _additions),
                ),
                "## Replays",
                table(["engine", "replayed", "messages", "median", "slowest"], _replays(results["replays"])),
            ]
        )
        + "\n"
    )


def _rows(results: dict[str, Any], cells: Any) -> list[list[str]]:
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for row in results["turns"]:
        groups.setdefault((row["engine"], row["window"]), {}).setdefault(row["mark"], []).append(row)
    return [[ENGINES[engine], window, *cells(marks)] for (engine, window), marks in groups.items()]


def _replays(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            ENGINES[row["engine"]],
            row["replayed"],
            str(row["history"]),
            f"{row['median_ms']:.3g}",
            f"{row['slowest_ms']:.3g}",
        ]
        for row in rows
    ]


def _turns(marks: dict[str, list[dict[str, Any]]]) -> list[str]:
    plain, marked = ([row["mean_turn_ms"] for row in marks[name]] for name in (PER_MESSAGE, MARKED))
    ratios = [ours / theirs for ours, theirs in zip(marked, plain, strict=True)]
    return [
        f"{median(plain):.3g}",
        f"{median(marked):.3g}",
        f"{median(ratios):.2f}",
        ", ".join(f"{ratio:.2f}" for ratio in ratios),
    ]


def _additions(marks: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = marks[MARKED]
    middle = {name: median(row[name] for row in rows) for name in rows[0] if name.endswith("_ms") or "mean" in name}
    return [
        f"{middle['median_addition_ms']:.3g}",
        f"{middle['median_evicting_ms']:.3g}",
        f"{middle['median_evicting_ms'] / middle['median_addition_ms']:.2f}",
        f"{max(row['slowest_evicting_ms'] for row in rows):.3g}",
        f"{middle['mean_evicted']:.1f}",
    ]
