"""The command ``python -m benchmarks.low_water``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.low_water.report import markdown
from benchmarks.machine import describe
from benchmarks.publishing import publish
from benchmarks.worker import in_worker

_ENGINES = ["sqlite", "postgres"]


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.low_water", description="Measure what a turn costs with a low-water mark."
    )
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES)
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured (default: 3)")
    parser.add_argument("--turns", type=int, default=500, help="turns that are timed (default: 500)")
    parser.add_argument("--warm-up", type=int, default=20, help="turns before those (default: 20)")
    parser.add_argument("--history", type=int, default=1_000, help="messages before those (default: 1000)")
    parser.add_argument("--replayed", type=int, default=10_000, help="messages of a replayed history (default: 10000)")
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything that was asked for."""
    asked = {name: getattr(given, name) for name in ("rounds", "turns", "warm_up", "history")}
    results: dict[str, Any] = {"machine": describe(given.engines), "asked": asked, "turns": [], "replays": []}
    for engine in given.engines:
        results["turns"] += in_worker(engine, "benchmarks.low_water.measuring.measure_turns", engine=engine, **asked)
        results["replays"] += in_worker(
            engine, "benchmarks.low_water.measuring.measure_replays", engine=engine, history=given.replayed, times=10
        )
    return results


def main() -> None:
    """Measure, print and write."""
    given = options()
    results = measure(given)
    publish(results, markdown(results), given.output)


main()
