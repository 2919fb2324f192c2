"""One trial: an act is disturbed at one of its points, and the result is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.soak.adversary.acts.act import Act, Scene
from benchmarks.soak.adversary.course import Course, observed, prepared, settings_of, survivors
from benchmarks.soak.adversary.disturbances import FAULTS
from benchmarks.soak.adversary.invariants import broken, changed_past
from benchmarks.soak.adversary.points import watched

__all__ = ["at_point", "judge", "survive"]


def at_point(number: int, disturb: Callable[[Callable[[], Any]], Any]) -> Callable[[str, Callable[[], Any]], Any]:
    """Return a function that disturbs the point with this number, and passes all others."""
    left = number

    def meet(point: str, go: Callable[[], Any]) -> Any:
        nonlocal left
        left -= 1
        return disturb(go) if left == -1 else go()

    return meet


def survive(act: Act, course: Course, number: int, fault: str) -> list[str]:
    """Do an act with a fault at one of its points, and return what is wrong afterwards."""
    scene = prepared(act)
    answered, problems = True, []
    try:
        with settings_of(act), watched(at_point(number, FAULTS[fault])):
            answer = act.do(scene)
        if answer != course.answer:
            problems.append(f"answers {answer} instead of {course.answer}")
    except Exception as error:
        answered = False
        if not _is_expected(error):
            problems.append(f"{type(error).__name__}: {error}")
    problems += _connection_problems()
    return problems + judge(act, scene, course, answered=answered)


def judge(act: Act, scene: Scene, course: Course, *, answered: bool) -> list[str]:
    """Return what is wrong after an act that was disturbed or killed, and after its repetition."""
    from tests.support.cutting import wait_until_alone

    wait_until_alone()
    with settings_of(act):
        return list(_wrong(act, scene, course, answered))


def _wrong(act: Act, scene: Scene, course: Course, answered: bool) -> Iterator[str]:
    from chatmemory.verification import verify

    first, last = course.states[0], course.states[-1]
    now = observed()
    if answered and now != last:
        yield f"was answered, but is not done: {course.describe(now)}"
    elif not course.allows(act, now):
        yield f"is half done: {course.describe(now)}"
    if now != first:  # which may be broken, for an act that repairs it
        yield from broken(now)
    if not act.forgets:
        yield from changed_past(first, now)
    if now != last or act.repeatable:
        yield from _again(act, scene, course)
    yield from survivors(act)
    yield from (f"verify: {finding}" for finding in verify())
    yield from _elsewhere(scene)


def _again(act: Act, scene: Scene, course: Course) -> Iterator[str]:
    try:
        answer = act.do(scene)
    except Exception as error:
        yield f"cannot be done again: {type(error).__name__}: {error}"
        return
    end = observed()
    if act.ends_alike and end != course.states[-1]:
        yield f"done again, ends in another state: {course.describe(end)}"
    if act.same_answer and answer != course.answer:
        yield f"done again, answers {answer} instead of {course.answer}"
    yield from broken(end)


def _elsewhere(scene: Scene) -> Iterator[str]:
    """Use another conversation, as a process that goes on does."""
    from chatmemory import UserMessage

    try:
        scene.bystander.memory.add(UserMessage("x3"))
        left = [str(message) for message in scene.bystander.memory.messages()]
    except Exception as error:
        yield f"the process does not go on: {type(error).__name__}: {error}"
        return
    if "x3" not in left[-1]:
        yield f"the process goes on, but reads {left}"


def _is_expected(failure: Exception) -> bool:
    from django.db import Error

    from benchmarks.soak.adversary.acts.rest import RefusedError

    return isinstance(failure, Error | RefusedError)


def _connection_problems() -> Iterator[str]:
    """Yield a problem if the connection is in a transaction, and then do what Django does at the end of a request."""
    from django.db import connection

    if connection.in_atomic_block:
        yield "the connection is left in a transaction"
    connection.close_at = None  # as with CONN_MAX_AGE = None: one that is usable is used again
    connection.close_if_unusable_or_obsolete()
