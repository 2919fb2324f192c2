"""Races of processes on one conversation, one of which is killed; a checker looks for an order that explains them."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.soak.adversary.acts.act import LIMIT, new_scene, signed_in
from benchmarks.soak.adversary.checker import Board, unexplained
from benchmarks.soak.adversary.course import observed
from benchmarks.soak.adversary.forking import end, fork, outcome
from benchmarks.soak.adversary.history import Operation, read_history
from benchmarks.soak.adversary.invariants import broken
from benchmarks.soak.adversary.model import State
from benchmarks.soak.adversary.racer import race
from benchmarks.soak.adversary.violations import Violations
from benchmarks.soak.crew import is_quick
from benchmarks.soak.engines import engine as running
from benchmarks.soak.rounds import Round, repeat

__all__ = ["run"]

_RACERS = 4
_EACH = 60
_LEAST = 3_000
_RACE = "race"


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Run rounds of four processes that do 60 operations each, and a fifth that is killed and replaced."""
    with running(engine, folder):
        violations = Violations(folder)
        least = {"tried": 1 if is_quick() else _LEAST}
        figures = repeat(folder, minutes, least, lambda this: _round(this, violations))
        return {**figures, "violations": violations.counts}


def _round(this: Round, violations: Violations) -> dict[str, Any]:
    from chatmemory.models import Conversation
    from chatmemory.verification import verify
    from tests.support.cutting import wait_until_alone

    this.folder.mkdir()
    scene = new_scene()
    conversation = Conversation.objects.create(owner=scene.user, memory_id=_RACE, window="messages", limit=LIMIT)
    client = signed_in(scene.user)
    at_work: list[int] = []

    def start(name: str) -> int:
        log = this.folder / f"{name}.jsonl"
        at_work.append(
            fork(lambda: race(conversation, client, name, _EACH, this.seed, log), this.folder / f"{name}.txt")
        )
        return at_work[-1]

    try:
        mortal = start("mortal")
        racers = [start(f"racer{number}") for number in range(_RACERS)]
        killed = _kill(mortal, random.Random(this.seed).uniform(0.05, 0.5))
        at_work.remove(mortal)
        racers.append(start("heir"))
        for racer in racers:
            if status := outcome(racer):
                violations.add("a process", this.seed, [f"ended with {status}: {_complaints(this.folder)}"])
            at_work.remove(racer)
    finally:
        end(at_work)
    wait_until_alone()
    history = read_history(this.folder.glob("*.jsonl"))
    stuck = unexplained(history, Board(State(LIMIT)))
    violations.add("no order explains", this.seed, [_described(stuck)] if stuck else [])
    violations.add("rows", this.seed, broken(observed()))
    violations.add("verify", this.seed, [str(finding) for finding in verify()])
    kinds = Counter(f"{operation.act}s" for operation in history)
    return {"tried": len(history), "kills": killed, "operations": dict(kinds)}


def _kill(process: int, after: float) -> int:
    """Kill a process that is at work, and return 1; 0 if it was done before."""
    time.sleep(after)
    os.kill(process, signal.SIGKILL)
    return int(outcome(process) == -signal.SIGKILL)


def _complaints(folder: Path) -> str:
    return " ".join(log.read_text()[-1_000:] for log in sorted(folder.glob("*.txt")))


def _described(stuck: list[Operation]) -> str:
    first = stuck[0]
    return f"{len(stuck)} operations, the first of them {first.act} of {first.who}: {first.given} → {first.result}"
