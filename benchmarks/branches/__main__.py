"""The command ``python -m benchmarks.branches``."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.report import ENGINES, table
from benchmarks.worker import in_worker

_ENGINES = ["sqlite", "postgres"]


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.branches", description="Measure branches of a long conversation beside a short one."
    )
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES[:1])
    parser.add_argument("--messages", type=int, default=10_000, help="of the long conversation (default: 10000)")
    parser.add_argument("--rounds", type=int, default=15, help="of each measurement (default: 15)")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    given = options()
    rows: list[dict[str, Any]] = []
    for engine in given.engines:
        asked = {"messages": given.messages, "rounds": given.rounds}
        rows += in_worker(engine, "benchmarks.branches.measuring.measure_branches", engine=engine, **asked)
    head = ["engine", "act", "100 messages", f"{given.messages:,}"]
    cells = [
        [ENGINES[row["engine"]], row["act"], f"{row['short_ms']:.1f} ms", f"{row['long_ms']:.1f} ms"] for row in rows
    ]
    print(table(head, cells))  # noqa: T201


main()
