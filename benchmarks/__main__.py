"""The command ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.contenders import NAMES
from benchmarks.report import markdown
from benchmarks.sections import measure
from benchmarks.windows import WINDOWS

_ENGINES = ["sqlite", "postgres"]
_HISTORIES = [0, 100, 1_000, 10_000, 100_000, 1_000_000]


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what a chat turn costs.")
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES)
    parser.add_argument("--windows", nargs="+", choices=list(WINDOWS), default=list(WINDOWS))
    parser.add_argument("--histories", nargs="+", type=int, help="messages before the turns; even numbers")
    parser.add_argument("--turns", type=int, help="turns of each contender that are timed (default: 60)")
    parser.add_argument("--warm-up", type=int, help="turns before those (default: 5)")
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES, metavar="CONTENDER", help=", ".join(NAMES))
    parser.add_argument("--output", type=Path, help="folder for results.json, RESULTS.md and turn-time.svg")
    parser.add_argument("--quick", action="store_true", help="two histories and few turns, to see that all runs")
    parser.add_argument("--skip-statements", action="store_true", help="no statements, bytes, memory and tokens")
    parser.add_argument("--skip-http", action="store_true", help="no gunicorn")
    parser.add_argument("--skip-throughput", action="store_true", help="no turns by a process on each core")
    given = parser.parse_args()
    given.histories = given.histories or ([100, 10_000] if given.quick else _HISTORIES)
    if any(history < 0 or history % 2 for history in given.histories):
        parser.error("--histories: a turn is two messages, so these are even numbers")
    given.turns = given.turns or (8 if given.quick else 60)
    given.warm_up = given.warm_up or (2 if given.quick else 5)
    if given.turns < 2:
        parser.error("--turns: quartiles need two at least")
    return given


def write(results: dict[str, Any], text: str, folder: Path) -> None:
    """Write the files of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(text, encoding="utf-8")
    if find_spec("matplotlib") is None:
        print("No plot: matplotlib is missing.", file=sys.stderr)  # noqa: T201
        return
    from benchmarks.plot import draw

    draw(results["cells"], folder / "turn-time.svg")


def main() -> None:
    """Measure, print and write; exit with status 1 if a section failed."""
    given = options()
    results = measure(given)
    text = markdown(results)
    print(text)  # noqa: T201
    if given.output:
        write(results, text, given.output)
    if results["failed"]:
        sys.exit(1)


if sys.argv[1:] and not sys.argv[1].startswith("-"):
    # ``python -m benchmarks recall …`` is ``python -m benchmarks.recall …``.
    runpy.run_module(f"benchmarks.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
else:
    main()
