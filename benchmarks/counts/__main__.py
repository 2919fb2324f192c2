"""The command ``python -m benchmarks.counts``."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.counts.conversations import MODELS
from benchmarks.counts.measuring import measure
from benchmarks.counts.report import markdown
from benchmarks.publishing import publish


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counts", description="Compare what windows count with what is sent."
    )
    parser.add_argument("--formats", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--conversations", type=int, default=5000, help="of each format (default: 5000)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="formats at once (default: cores)")
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    return parser.parse_args()


def main() -> None:
    """Count, print and write."""
    given = options()
    with ProcessPoolExecutor(given.processes) as pool:
        rows = list(pool.map(partial(measure, conversations=given.conversations), given.formats))
    results: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "tiktoken": version("tiktoken"),
        "conversations": given.conversations,
        "rows": rows,
    }
    publish(results, markdown(results), given.output)


if __name__ == "__main__":
    main()
