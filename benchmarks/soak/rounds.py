"""Rounds of a scenario: each a conversation of its own, until the time is over and enough has happened."""

from __future__ import annotations

import re
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soak import crew

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["Round", "errors_in", "repeat"]

_WINDOWS: list[dict[str, Any]] = [{"window": "messages", "limit": 7}, {"window": "tokens", "limit": 100}]


@dataclass(frozen=True)
class Round:
    """One round."""

    number: int

    folder: Path
    """A folder for its logs; removed if all was well."""

    seed: str
    """The seed of its random choices."""

    def conversation(self) -> Conversation:
        """Create a conversation, whose window counts messages in one round and tokens in the next."""
        from chatmemory.models import Conversation

        return Conversation.objects.create(**_WINDOWS[self.number % len(_WINDOWS)])

    def crew(self) -> crew.Crew:
        """Return a crew for its processes."""
        return crew.Crew(self.folder, self.seed)


def repeat(
    folder: Path, minutes: float, least: dict[str, int], work: Callable[[Round], dict[str, Any]]
) -> dict[str, Any]:
    """Work in rounds until ``minutes`` are over, and until the figures reach ``least``.

    Args:
        folder: of the scenario.
        minutes: after these no round begins, unless one must.
        least: figures that ``work`` returns, and what each must come to.
        work: one round; what it counts is added up.

    Raises:
        AssertionError: something was lost, or failed; with the round, its seed and its logs.
    """
    figures: dict[str, Any] = {"rounds": 0}
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until or any(figures.get(name, 0) < count for name, count in least.items()):
        number = figures["rounds"]
        this = Round(number, folder / f"round-{number}", f"{crew.seed()} {folder.name} {number}")
        begun = time.monotonic()
        try:
            found = work(this)
        except Exception as error:  # a process that does not end, or a server that does not start, is wrong too
            what = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
            where = f"round {number}, seed {this.seed!r}, logs in {this.folder}"
            raise AssertionError(f"{where}: {type(error).__name__}: {what}") from error
        figures["rounds"] += 1
        _add(figures, found)
        counts = ", ".join(f"{name} {count}" for name, count in found.items() if isinstance(count, int))
        crew.tell(f"{folder.name}: round {number}, {time.monotonic() - begun:.0f} s, {counts}")
        shutil.rmtree(this.folder)
    return figures


def errors_in(logs: dict[str, list[dict[str, Any]]]) -> dict[str, int]:
    """Return how often connections failed, by kind and first line, without the port, which differs each time."""
    return dict(
        Counter(
            f"{record['kind']}: {re.sub(r'(?<=port )[0-9]+|(?<=:)[0-9]+', 'N', record['error'].splitlines()[0])}"
            for records in logs.values()
            for record in records
            if record["act"] == "failed"
        )
    )


def _add(figures: dict[str, Any], found: dict[str, Any]) -> None:
    for name, figure in found.items():
        if isinstance(figure, dict):
            _add(figures.setdefault(name, {}), figure)
        else:
            figures[name] = figures.get(name, 0) + figure
