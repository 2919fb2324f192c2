"""The command ``python -m benchmarks.pages``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.pages.report import markdown
from benchmarks.publishing import publish
from benchmarks.worker import in_worker

_ENGINES = ["sqlite", "postgres"]


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description="Measure the admin's pages.")
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES)
    parser.add_argument("--rounds", type=int, default=100, help="how often each page is asked for (default: 100)")
    parser.add_argument("--short", type=int, default=100, help="messages of one conversation (default: 100)")
    parser.add_argument("--long", type=int, default=100_000, help="messages of the other (default: 100000)")
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    given = parser.parse_args()
    if given.rounds < 1 or any(length < 2 or length % 2 for length in (given.short, given.long)):
        parser.error("a turn is two messages, so --short and --long are even numbers, and there is a round at least")
    return given


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything that was asked for."""
    sizes = {"short": given.short, "long": given.long}
    results: dict[str, Any] = {"machine": describe(given.engines), **sizes, "pages": []}
    for engine in given.engines:
        results["pages"] += in_worker(
            engine, "benchmarks.pages.measuring.measure_pages", engine=engine, rounds=given.rounds, **sizes
        )
    return results


def main() -> None:
    """Measure, print and write."""
    given = options()
    results = measure(given)
    publish(results, markdown(results), given.output)


main()
