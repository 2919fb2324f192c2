"""Processes on all nodes of a cluster, in the same conversations."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.soak.crew import Crew, Process

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["PATIENCE", "Traffic"]

PATIENCE = 120.0
"""The most seconds that may pass without an answer."""

Work = list[tuple[Crew, Process]]


@dataclass(frozen=True)
class Traffic:
    """The processes that work in the conversations of one round."""

    conversations: Sequence[Conversation]

    crews: Sequence[Crew]
    """One crew for each conversation."""

    databases: Sequence[dict[str, dict[str, Any]]]
    """Django's databases, for processes on each of the nodes."""

    def start(self, role: str, count: int, name: str | None = None) -> Work:
        """Start a process on each node in each conversation, with a ``name`` if others have the same role."""
        work = []
        for crew, conversation in zip(self.crews, self.conversations, strict=True):
            for number, database in enumerate(self.databases):
                work.append((crew, crew.start(role, _name(name or role, number), count, conversation, database)))
        return work

    def start_one_in_each(self, role: str, count: int, chance: random.Random) -> Work:
        """Start a process in each conversation, on any node."""
        return [
            (crew, crew.start(role, _name(role, 0), count, conversation, chance.choice(self.databases)))
            for crew, conversation in zip(self.crews, self.conversations, strict=True)
        ]

    def finish(self, work: Work) -> None:
        """Wait until all have finished."""
        for crew, process in work:
            crew.finish([process])

    def stop(self, work: Work) -> None:
        """End those that go on until they are told to stop."""
        for crew in self.crews:
            crew.stop()
        for crew, process in work:
            crew.finish([process], timeout=PATIENCE)

    def wait_for_answers(self, name: str, nodes: Iterable[int]) -> None:
        """Wait until every process of this name, or role, on these nodes got one more answer."""
        logs = [crew.folder / f"{_name(name, number)}.jsonl" for crew in self.crews for number in nodes]
        before = {log: log.stat().st_size if log.exists() else 0 for log in logs}
        begun = time.monotonic()
        while logs:
            assert time.monotonic() < begun + PATIENCE, f"no answer for {PATIENCE:.0f} seconds: {logs}"
            time.sleep(0.1)
            logs = [log for log in logs if not log.exists() or '"act": "done"' not in log.read_text()[before[log] :]]


def _name(name: str, number: int) -> str:
    return f"{name}-{number}"
