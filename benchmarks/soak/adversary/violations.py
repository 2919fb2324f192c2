"""Violations: counted for the report, and written to a file in full."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

__all__ = ["Violations"]

# The parts of a problem's text that differ from one time to the next.
_DIFFERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=port )\d+|(?<=_curs_)\w+|(?<=worker)\d+-\d+|(?<=question )\d+")


class Violations:
    """The violations of a run, which goes on after the first."""

    def __init__(self, folder: Path) -> None:
        """
        Args:
            folder: gets the file ``violations.txt`` with the first violation.
        """
        self.counts: dict[str, int] = Counter()
        """The number of times that each was found, by its text."""

        self._file = folder / "violations.txt"
        self._by_name: Counter[str] = Counter()

    def add(self, name: str, where: str, problems: list[str]) -> None:
        """Add the problems of what has this name."""
        for problem in problems:
            self.counts[f"{name}: {_short(problem)}"] += 1
            self._by_name[name] += 1
            with self._file.open("a") as file:
                file.write(f"{name}, {where}: {problem}\n")

    def of(self, name: str) -> int:
        """Return the number of violations of a name."""
        return self._by_name[name]


def _short(problem: str) -> str:
    line = _DIFFERS.sub("…", " ".join(problem.split()))
    return line if len(line) <= 240 else f"{line[:239]}…"
