"""``python -m benchmarks.weight``: CPU time and memory of a new process, beside bare Django's in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

from benchmarks.weight.process import SETUPS

ROUNDS = 9


def measured(setup: str) -> list[tuple[str, float, float]]:
    """Start one process of a set-up; return its steps."""
    command = [sys.executable, "-m", "benchmarks.weight.process", setup]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(step, milliseconds, megabytes) for step, milliseconds, megabytes in json.loads(done.stdout)]


def main() -> None:
    """Print a table: for each step the medians of all rounds, in which the set-ups take turns."""
    for setup in SETUPS:
        measured(setup)  # compiles the modules
    rounds = [{setup: measured(setup) for setup in SETUPS} for _ in range(ROUNDS)]
    first = next(iter(SETUPS))
    bare = median(each[first][0][1] for each in rounds)
    lines = [
        "| set-up | step | CPU, ms | beside bare Django's setup() | memory, MB |",
        "| --- | --- | --- | --- | --- |",
    ]
    for setup in SETUPS:
        for index, (step, _, _) in enumerate(rounds[0][setup]):
            milliseconds = median(each[setup][index][1] for each in rounds)
            megabytes = median(each[setup][index][2] for each in rounds)
            lines.append(f"| {setup} | {step} | {milliseconds:.0f} | {milliseconds / bare:.2f} | {megabytes:.0f} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
