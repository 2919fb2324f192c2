"""The command ``python -m benchmarks.streams``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.publishing import publish
from benchmarks.streams.report import markdown
from benchmarks.worker import in_worker

_ENGINES = ["sqlite", "postgres"]


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.streams", description="Measure what a turn over HTTP costs beside a bare view."
    )
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES)
    parser.add_argument("--measurements", type=int, default=5, help="how often all is measured (default: 5)")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of each measurement (default: 30)")
    parser.add_argument("--pieces", type=int, default=1_000, help="further pieces of a long answer (default: 1000)")
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything that was asked for."""
    asked = {name: getattr(given, name) for name in ("measurements", "rounds", "pieces")}
    rows = [
        row
        for engine in given.engines
        for row in in_worker(engine, "benchmarks.streams.measuring.measure_streams", engine=engine, **asked)
    ]
    return {"machine": describe(given.engines), "asked": asked, "rows": rows}


def main() -> None:
    """Measure, print and write."""
    given = options()
    results = measure(given)
    publish(results, markdown(results), given.output)


main()
