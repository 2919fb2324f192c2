"""Faults of each kind at every statement and every commit of every act."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.soak.adversary.acts import every_act
from benchmarks.soak.adversary.acts.act import Act
from benchmarks.soak.adversary.course import Course
from benchmarks.soak.adversary.disturbances import COLLISION, FAULTS
from benchmarks.soak.adversary.points import AUTOCOMMIT
from benchmarks.soak.adversary.trial import survive
from benchmarks.soak.adversary.violations import Violations
from benchmarks.soak.crew import is_quick, seed, tell
from benchmarks.soak.engines import engine as running

__all__ = ["run", "trials_of", "try_everything"]

_QUICKLY = 2  # trials of each act

Try = Callable[[Act, Course, int, str], list[str]]


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Disturb every act at every point in every way, however long it takes."""
    with running(engine, folder):
        violations = Violations(folder)
        tried = try_everything(every_act(), list(FAULTS), survive, violations)
        return {**tried, "violations": violations.counts}


def try_everything(acts: list[Act], ways: list[str], trial: Try, violations: Violations) -> dict[str, int]:
    """Try each way at each point of each act, and return the numbers of acts, points and trials."""
    logging.disable()  # the package logs the errors that it meets, and these are on purpose
    counts = {"acts": 0, "points": 0, "tried": 0}
    for act in acts:
        try:
            Course.of(act)  # so that what a process reads only once is read before the trials
            course = Course.of(act)
        except Exception as error:  # the others are tried all the same
            violations.add(act.name, "undisturbed", [f"{type(error).__name__}: {error}"])
            continue
        violations.add(act.name, "undisturbed", course.problems(act))
        trials = list(trials_of(course, ways))
        if is_quick():
            trials = random.Random(f"{seed()} {act.name}").sample(trials, min(_QUICKLY, len(trials)))
        for number, way in trials:
            where = f"{way} point {number}, {' '.join(course.points[number].split())[:100]}"
            violations.add(act.name, where, trial(act, course, number, way))
        counts["acts"] += 1
        counts["points"] += len(course.points)
        counts["tried"] += len(trials)
        tell(f"{act.name}: {len(course.points)} points, {len(trials)} trials, {violations.of(act.name)} violations")
    return counts


def trials_of(course: Course, ways: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number of each point with each way in which it can go wrong."""
    for number, point in enumerate(course.points):
        for way in ways:
            if (point, way) != (AUTOCOMMIT, COLLISION):  # no transaction is open there that could be rolled back
                yield number, way
