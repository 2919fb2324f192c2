"""The course of an undisturbed act: its points, the states that others see, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.soak.adversary.acts.act import LIMIT, Act, Scene, new_scene
from benchmarks.soak.adversary.invariants import broken, changed_past
from benchmarks.soak.adversary.model import State
from benchmarks.soak.adversary.points import COMMIT, watched
from benchmarks.soak.adversary.stored import Stored, quotes, read_all

__all__ = ["Course", "observed", "prepared", "settings_of", "survivors"]


@dataclass
class Course:
    """What an act does when nothing goes wrong."""

    points: list[str] = field(default_factory=list)

    states: list[Stored] = field(default_factory=list)
    """The different states that others see, from before the act to after it."""

    answer: Any = None

    left: list[str] = field(default_factory=list)
    """What is left of the word that the act erases."""

    @classmethod
    def of(cls, act: Act) -> Course:
        """Do an act, and write down its course."""
        scene = prepared(act)
        course = cls(states=[observed()])
        with settings_of(act), watched(course._note):
            course.answer = act.do(scene)
        course._look()
        course.left = survivors(act)
        return course

    def problems(self, act: Act) -> list[str]:
        """Return what is wrong with the undisturbed act."""
        first, last = self.states[0], self.states[-1]
        found = broken(last) + ([] if act.forgets else changed_past(first, last))
        if len(self.states) - 1 > act.steps:
            seen = " → ".join(_difference(state, last) for state in self.states[1:-1])
            found.append(f"others see {len(self.states)} states instead of {act.steps + 1} at most: {seen}")
        if act.effect is not None:
            found += _unlike_the_documentation(act, act.effect, first, last)
        return found + self.left

    def allows(self, act: Act, state: Stored) -> bool:
        """Return whether a disturbed act may leave this state."""
        return state in (self.states if act.steps > 1 else (self.states[0], self.states[-1]))

    def describe(self, state: Stored) -> str:
        """Return how a state differs from the last one."""
        return _difference(state, self.states[-1])

    def _note(self, point: str, go: Callable[[], Any]) -> Any:
        from django.db import connection

        self.points.append(point)
        result = go()
        if point == COMMIT or not (connection.in_atomic_block or point.lstrip("( ").startswith("SELECT")):
            self._look()
        return result

    def _look(self) -> None:
        state = observed()
        if state != self.states[-1]:
            self.states.append(state)


def prepared(act: Act) -> Scene:
    """Create the rows that an act begins with."""
    scene = new_scene()
    act.prepare(scene)
    return scene


@contextmanager
def settings_of(act: Act) -> Iterator[None]:
    """Set the settings of an act."""
    from django.conf import settings
    from django.test.utils import override_settings

    with override_settings(CHATMEMORY=settings.CHATMEMORY | act.settings):
        yield


def observed() -> Stored:
    """Return what another connection sees."""
    with _another_connection() as other:
        return read_all(other)


def survivors(act: Act) -> list[str]:
    """Return where the word is left that an act erases."""
    if not act.erases:
        return []
    with _another_connection() as other:
        return [f"{table} still has the word that was erased" for table in quotes(other, act.erases)]


@contextmanager
def _another_connection() -> Iterator[Any]:
    from django.db import connection

    other = connection.copy()
    try:
        yield other
    finally:
        other.close()


def _unlike_the_documentation(
    act: Act, effect: Callable[[State], State | None], first: Stored, last: Stored
) -> list[str]:
    before, after = first.named(act.about), last.named(act.about)
    expected = effect(State(LIMIT) if before is None else before.state)
    found = None if after is None else after.state
    if expected is not None and found is not None and before is None:
        found = replace(found, limit=expected.limit)  # a new conversation's is the project's
    return [] if expected == found else [f"expected {expected}, found {found}"]


def _difference(state: Stored, other: Stored) -> str:
    names = dict.fromkeys(one.memory_id for one in (*state.conversations, *other.conversations))
    told = []
    for name in names:
        here = state.named(name)
        if here is None:
            told.append(f"{name!r} is missing")
        elif here != other.named(name):
            told.append(f"{name!r} has version {here.version}, {len(here.messages)} messages, {len(here.keys)} keys")
    differs = [table for table, rows in state.others if (table, rows) not in other.others]
    told += [f"{', '.join(differs)} have other numbers of rows"] if differs else []
    return ", ".join(told) or "the same"
