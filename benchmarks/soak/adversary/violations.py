"""What was found to be wrong: counted for the report, and written down with all that is known."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

__all__ = ["Violations"]

# What differs each time, though it is the same that is wrong.
_DIFFERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=port )\d+|(?<=_curs_)\w+|(?<=worker)\d+-\d+|(?<=question )\d+")


class Violations:
    """The violations of a run. Nothing ends at the first."""

    def __init__(self, folder: Path) -> None:
        """
        Args:
            folder: gets a file ``violations.txt`` if there is one.
        """
        self.counts: dict[str, int] = Counter()
        """How often each was found, by its text."""

        self._file = folder / "violations.txt"
        self._by_name: Counter[str] = Counter()

    def add(self, name: str, where: str, problems: list[str]) -> None:
        """Add what is wrong with something."""
        for problem in problems:
            self.counts[f"{name}: {_short(problem)}"] += 1
            self._by_name[name] += 1
            with self._file.open("a") as file:
                file.write(f"{name}, {where}: {problem}\n")

    def of(self, name: str) -> int:
        """Return how many there are of a name."""
        return self._by_name[name]


def _short(problem: str) -> str:
    line = _DIFFERS.sub("…", " ".join(problem.split()))
    return line if len(line) <= 240 else f"{line[:239]}…"
