"""The command ``python -m benchmarks.prompt_cache``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.prompt_cache.conversations import Conversation, Kind, Sizes
from benchmarks.prompt_cache.report import markdown
from benchmarks.prompt_cache.rows import OURS, PER_MESSAGE, ROWS, Row, ours
from benchmarks.prompt_cache.simulation import simulate

_WINDOWS = [4_000, 16_000, 64_000]
_WINDOWS_OF_OTHERS = [4_000, 16_000]  # in large ones, some take hours
_MARKS = [30, 40, 50, 60, 70, 85, 100]
_USUAL = 16_000  # tokens: the window that the setups are compared in

_SETUPS = {
    "as in the tables": (Sizes(), 1),
    "other random sizes": (Sizes(), 2),
    "no system message to speak of": (Sizes(system=10), 1),
    "system message of 2 000 tokens": (Sizes(system=2_000), 1),
    "texts half as long": (Sizes(user=35, answer=107, results=(25, 400)), 1),
    "texts twice as long": (Sizes(user=140, answer=430, results=(100, 1_600)), 1),
}


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prompt_cache", description="Simulate a provider's prompt cache."
    )
    parser.add_argument("--turns", type=int, default=500, help="turns of each conversation (default: 500)")
    parser.add_argument("--windows", nargs="+", type=int, default=_WINDOWS, help="limits in tokens")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="simulations at once (default: cores)")
    parser.add_argument(
        "--others", nargs="*", type=int, default=_WINDOWS_OF_OTHERS, help="the limits of other frameworks' windows"
    )
    parser.add_argument("--output", type=Path, help="folder for results.json, RESULTS.md and trade-off.svg")
    return parser.parse_args()


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One simulation."""

    row: Row
    kind: Kind
    window: int
    turns: int
    setup: str = "as in the tables"

    def done(self) -> dict[str, Any]:
        """Return the figures, or what is ``missing``."""
        sizes, seed = _SETUPS[self.setup]
        conversation = Conversation.of(self.kind, self.turns, sizes=sizes, seed=seed)
        try:
            contender = self.row.contender(conversation, self.window)
        except ImportError as error:
            return {"missing": str(error)}
        found = simulate(contender, conversation)
        prices = {"price": found.price, "anthropic_price": found.anthropic_price}
        return {"kind": self.kind, "window": self.window, **asdict(found), **prices}


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Simulate everything, in several processes."""
    tables = [
        Job(row=row, kind=kind, window=window, turns=given.turns)
        for row in ROWS
        for kind in row.kinds
        for window in given.windows
        if row.package == PER_MESSAGE.package or window in given.others
    ]
    marks = {
        Job(row=_at_mark(mark, kind), kind=kind, window=window, turns=given.turns): mark
        for kind in Kind
        for window in given.windows
        for mark in _MARKS
    }
    setups = [
        Job(row=row, kind=kind, window=_USUAL, turns=given.turns, setup=setup)
        for kind in Kind
        for setup in _SETUPS
        for row in (PER_MESSAGE, OURS[kind])
    ]
    with ProcessPoolExecutor(given.processes) as pool:
        # The longest first, so that no process waits for the last one.
        figures = dict(zip(jobs := [*reversed(tables), *marks, *setups], pool.map(_done, jobs), strict=True))
    there = [job for job in tables if "missing" not in figures[job]]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "turns": given.turns,
        "others": given.others,
        "versions": {name: version(name) for name in {"tiktoken"} | {job.row.package for job in there}},
        "missing": {job.row.name: figures[job]["missing"] for job in tables if job not in there},
        "rows": [{"row": job.row.name, **figures[job]} for job in there],
        "marks": [{"mark": mark, **figures[job]} for job, mark in marks.items()],
        "setups": [{"row": job.row.name, "setup": job.setup, **figures[job]} for job in setups],
    }


def _done(job: Job) -> dict[str, Any]:
    logging.disable(logging.WARNING)  # the frameworks tell of what their windows cannot hold
    return job.done()


def _at_mark(mark: int, kind: Kind) -> Row:
    """Return the recommended settings with another mark."""
    more = {"keep_tool_results": 3} if kind is Kind.TOOLS else {}
    return ours(f"mark of {mark}", low_water=mark, whole_turns=True, **more)


def write(results: dict[str, Any], text: str, folder: Path) -> None:
    """Write the files of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(text, encoding="utf-8")
    if find_spec("matplotlib") is None:
        print("No plot: matplotlib is missing.", file=sys.stderr)  # noqa: T201
        return
    from benchmarks.prompt_cache.plot import draw

    draw(results, folder / "trade-off.svg")


def main() -> None:
    """Simulate, print and write."""
    given = options()
    results = measure(given)
    text = markdown(results)
    print(text)  # noqa: T201
    if given.output:
        write(results, text, given.output)


if __name__ == "__main__":
    main()
