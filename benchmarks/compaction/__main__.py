"""The command ``python -m benchmarks.compaction``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.compaction.report import markdown
from benchmarks.machine import describe
from benchmarks.prompt_cache.conversations import Kind
from benchmarks.publishing import publish
from benchmarks.worker import in_worker

_ENGINES = ["sqlite", "postgres"]
_MEASURING = "benchmarks.compaction.measuring"


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compaction", description="Measure what windows and summaries cost."
    )
    parser.add_argument(
        "--engines", nargs="*", choices=_ENGINES, default=_ENGINES, help="without one, nothing is timed"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each ratio is measured (default: 5)")
    parser.add_argument("--additions", type=int, default=400, help="timed additions of a round (default: 400)")
    parser.add_argument("--rows", type=int, default=10_000, help="messages of one summary (default: 10000)")
    parser.add_argument("--turns", type=int, default=200, help="timed turns of a round (default: 200)")
    parser.add_argument("--history", type=int, default=100_000, help="messages before those (default: 100000)")
    parser.add_argument(
        "--simulated", type=int, default=500, help="turns with tools that are simulated; of chat four times as many"
    )
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything that was asked for."""
    results: dict[str, Any] = {"machine": describe(given.engines), "simulated": given.simulated, "costs": []}
    results |= {"additions": [], "plans": [], "turns": []}
    for kind in Kind:
        results["costs"] += in_worker(
            "sqlite", "benchmarks.compaction.costs.measure_costs", kind=kind, turns=given.simulated
        )
    for engine in given.engines:
        results["additions"] += in_worker(
            engine, f"{_MEASURING}.measure_additions", engine=engine, rounds=given.rounds, additions=given.additions
        )
        results["plans"] += in_worker(
            engine, f"{_MEASURING}.measure_plans", engine=engine, rounds=given.rounds, rows=given.rows
        )
        results["turns"] += in_worker(
            engine,
            f"{_MEASURING}.measure_turns",
            engine=engine,
            rounds=given.rounds,
            turns=given.turns,
            histories=[100, given.history],
        )
    return results


def main() -> None:
    """Measure, print and write."""
    given = options()
    results = measure(given)
    publish(results, markdown(results), given.output)


main()
