"""Kills of a process before and after every statement and every commit of every act."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.soak.adversary.acts import every_act
from benchmarks.soak.adversary.acts.act import Act, Scene
from benchmarks.soak.adversary.course import Course, prepared, settings_of
from benchmarks.soak.adversary.disturbances import KILLS
from benchmarks.soak.adversary.faults import try_everything
from benchmarks.soak.adversary.forking import fork, outcome
from benchmarks.soak.adversary.points import watched
from benchmarks.soak.adversary.trial import at_point, judge
from benchmarks.soak.adversary.violations import Violations
from benchmarks.soak.engines import engine as running

__all__ = ["run"]


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Kill a process at every point of every act, however long it takes; this process checks what is left."""
    with running(engine, folder):
        violations = Violations(folder)
        tried = try_everything(every_act(), list(KILLS), partial(_kill, folder / "killed.txt"), violations)
        return {**tried, "violations": violations.counts}


def _kill(log: Path, act: Act, course: Course, number: int, way: str) -> list[str]:
    scene = prepared(act)
    ended = outcome(fork(lambda: _do(act, scene, number, way), log))
    if ended != -signal.SIGKILL:
        return [f"the process was not killed, but ended with {ended}: see {log}"]
    return judge(act, scene, course, answered=False)


def _do(act: Act, scene: Scene, number: int, way: str) -> None:
    with settings_of(act), watched(at_point(number, KILLS[way])):
        act.do(scene)
