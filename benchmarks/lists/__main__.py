"""The command ``python -m benchmarks.lists``."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.report import ENGINES, table
from benchmarks.worker import in_worker

_ENGINES = ["sqlite", "postgres", "mariadb"]


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lists",
        description="Measure the admin's list of many conversations beside the list of 100.",
    )
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES[:2])
    parser.add_argument("--conversations", type=int, default=100_000, help="how many are many (default: 100000)")
    parser.add_argument("--rounds", type=int, default=15, help="requests of each list (default: 15)")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    given = options()
    rows: list[dict[str, Any]] = []
    for engine in given.engines:
        asked = {"many": given.conversations, "rounds": given.rounds}
        rows += in_worker(engine, "benchmarks.lists.measuring.measure_lists", engine=engine, **asked)
    head = ["engine", "list", "100 conversations", f"{given.conversations:,}", "ratio", "ratio of CPU time"]
    cells = [
        [
            ENGINES[row["engine"]],
            row["list"],
            f"{row['few_ms']:.0f} ms",
            f"{row['wall_ms']:.0f} ms",
            f"{row['over_few']:.2f}",
            f"{row['cpu_over_few']:.2f}",
        ]
        for row in rows
    ]
    print(table(head, cells))  # noqa: T201


main()
