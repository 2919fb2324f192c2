"""The adversary of the soak can tell right from wrong: its checks say no to what is wrong, and yes to what is not."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection

from benchmarks.soak.adversary.acts.act import Act, Scene
from benchmarks.soak.adversary.acts.memory import ACTS
from benchmarks.soak.adversary.checker import Board, unexplained
from benchmarks.soak.adversary.course import Course
from benchmarks.soak.adversary.disturbances import FAULTS
from benchmarks.soak.adversary.faults import trials_of, try_everything
from benchmarks.soak.adversary.history import Operation
from benchmarks.soak.adversary.model import CALL, RESULT, SYSTEM, Said, State
from benchmarks.soak.adversary.trial import survive
from benchmarks.soak.adversary.violations import Violations
from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from tests.support.traffic import without_calls

START = Board(State(3))


def add(text: str, when: tuple[float, float], position: int, version: int, key: str | None = None) -> Operation:
    given = {"messages": [["USER", text]], "key": key}
    result = {"positions": [position], "version": version}
    return Operation(who="a", act="add", given=given, invoked=when[0], returned=when[1], result=result)


def read(texts: str, when: tuple[float, float]) -> Operation:
    told = {"messages": [["USER", text] for text in texts]}
    return Operation(who="r", act="read", given={}, invoked=when[0], returned=when[1], result=told)


def unanswered(text: str, since: float) -> Operation:
    return Operation(who="k", act="add", given={"messages": [["USER", text]], "key": None}, invoked=since)


def change(act: str, when: tuple[float, float], version: int, **given: Any) -> Operation:
    return Operation(who="c", act=act, given=given, invoked=when[0], returned=when[1], result={"version": version})


class TestAHistoryIsExplained:
    def test_when_all_came_one_after_the_other(self) -> None:
        history = [add("a", (1, 2), 0, 1), read("a", (3, 4)), add("b", (5, 6), 1, 2), read("ab", (7, 8))]
        assert unexplained(history, START) == []

    def test_when_two_at_once_came_in_the_other_order(self) -> None:
        assert unexplained([add("a", (1, 9), 1, 2), add("b", (2, 8), 0, 1), read("ba", (10, 11))], START) == []

    def test_when_a_read_beside_a_write_saw_it_or_did_not(self) -> None:
        write = add("a", (1, 9), 0, 1)
        assert unexplained([write, read("", (2, 3)), read("a", (4, 5)), read("a", (6, 7))], START) == []

    @pytest.mark.parametrize("seen", ["", "k"])
    def test_whether_a_killed_process_had_written_or_not(self, seen: str) -> None:
        assert unexplained([unanswered("k", 1), read(seen, (2, 3)), read(seen, (4, 5))], START) == []

    def test_when_a_key_came_again_after_other_messages(self) -> None:
        history = [add("a", (1, 2), 0, 1, "k"), add("b", (3, 4), 1, 2), add("a", (5, 6), 0, 1, "k")]
        assert unexplained([*history, read("ab", (7, 8))], START) == []

    def test_of_rewrites_and_windows(self) -> None:
        messages = [["USER", "s"], ["USER", "b"]]
        history = [
            add("a", (1, 2), 0, 1),
            add("b", (3, 4), 1, 2),
            change("set", (5, 6), 3, messages=messages),
            change("bound", (7, 8), 4, limit=1),
            read("b", (9, 10)),
            change("clear", (11, 12), 5),
            change("clear", (13, 14), 5),
        ]
        assert unexplained(history, START) == []


class TestAHistoryIsRefused:
    def test_with_a_lost_write(self) -> None:
        lost = add("a", (1, 4), 0, 1)
        assert unexplained([lost, add("b", (2, 3), 0, 1), read("b", (5, 6))], START)

    def test_with_a_write_that_was_overwritten_later(self) -> None:
        history = [add("a", (1, 2), 0, 1), add("b", (3, 4), 1, 2), read("b", (5, 6))]
        assert unexplained(history, START) == [history[2]]

    def test_with_a_stale_read(self) -> None:
        history = [add("a", (1, 2), 0, 1), read("", (3, 4))]
        assert unexplained(history, START) == [history[1]]

    def test_with_reads_that_go_back_in_time(self) -> None:
        assert unexplained([add("a", (1, 9), 0, 1), read("a", (2, 3)), read("", (4, 5))], START)

    def test_with_a_double_add(self) -> None:
        history = [add("a", (1, 2), 0, 1, "k"), add("a", (3, 4), 0, 1, "k"), read("aa", (5, 6))]
        assert unexplained(history, START) == [history[2]]

    def test_with_a_key_that_added_twice(self) -> None:
        assert unexplained([add("a", (1, 2), 0, 1, "k"), add("a", (3, 4), 1, 2, "k")], START)

    def test_with_a_write_of_a_killed_process_that_comes_and_goes(self) -> None:
        assert unexplained([unanswered("k", 1), read("k", (2, 3)), read("", (4, 5))], START)

    def test_with_two_writes_of_one_version(self) -> None:
        assert unexplained([add("a", (1, 9), 0, 1), add("b", (2, 8), 1, 1)], START)

    def test_with_a_window_that_retains_too_much(self) -> None:
        writes = [add(text, (2 * n, 2 * n + 1), n, n + 1) for n, text in enumerate("abcd")]
        assert unexplained([*writes, read("bcd", (10, 11))], START) == []
        assert unexplained([*writes, read("abcd", (10, 11))], START)


def test_the_model_evicts_the_results_of_a_call_with_it_and_keeps_the_system_message() -> None:
    call, results = Said(CALL, "c"), (Said(RESULT, "1"), Said(RESULT, "2"))
    state = State(4).add(Said(SYSTEM, "s"), call, *results)
    assert state.memory == (Said(SYSTEM, "s"), call, *results)
    assert state.add(Said("USER", "q")).memory == (Said(SYSTEM, "s"), Said("USER", "q"))


# The injector, on acts that are right and on acts that are not.


def violations(act: Act) -> list[str]:
    Course.of(act)  # what is read once in a process is read now
    course = Course.of(act)
    found = course.problems(act)
    for number, fault in trials_of(course, FAULTS):
        found += survive(act, course, number, fault)
    return found


def known(name: str) -> Act:
    return next(act for act in ACTS if act.name == name)


@pytest.mark.django_db(transaction=True)
class TestFaults:
    @pytest.mark.slow
    @pytest.mark.usefixtures("sdks")
    @pytest.mark.parametrize("name", ["add", "add with a key"])
    def test_find_nothing_wrong_in(self, name: str) -> None:
        assert violations(known(name)) == []

    @pytest.mark.slow
    def test_find_half_of_an_act(self) -> None:
        def twice(scene: Scene) -> None:
            scene.conversation.memory.add(UserMessage("q"))
            scene.conversation.memory.clear()

        found = violations(Act(name="two in one", do=twice, repeatable=True))
        assert any("half done" in problem for problem in found)
        assert any("others see 3 states instead of 2" in problem for problem in found)

    @pytest.mark.slow
    def test_find_what_is_acknowledged_and_lost(self) -> None:
        def hope(scene: Scene) -> None:
            with suppress(DatabaseError):
                scene.conversation.memory.add(UserMessage("q"))

        assert any("was answered, but is not done" in one for one in violations(Act(name="hope", do=hope)))

    @pytest.mark.slow
    def test_find_what_happens_twice(self) -> None:
        def insist(scene: Scene) -> None:
            for _ in range(2):
                with suppress(DatabaseError):  # nobody knows whether it was added
                    scene.conversation.memory.add(UserMessage("q"))
                    break
                connection.close()

        found = violations(Act(name="insist", do=insist, effect=lambda state: state.add(Said("USER", "q"))))
        assert any("version 4" in problem for problem in found)

    @pytest.mark.slow
    def test_find_a_word_that_was_not_erased(self) -> None:
        def clear(scene: Scene) -> None:
            scene.conversation.memory.clear()

        found = violations(Act(name="clear", do=clear, repeatable=True, erases="u0"))
        assert {problem for problem in found if "word" in problem} == {
            "chatmemory_message still has the word that was erased"
        }

    @pytest.mark.slow
    def test_go_on_after_an_act_that_fails_by_itself(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(scene: Scene) -> None:
            raise RuntimeError("by itself")

        monkeypatch.setenv("CHATMEMORY_SOAK_QUICK", "1")
        found = Violations(tmp_path)
        try:
            counts = try_everything([Act(name="fail", do=fail), known("add")], list(FAULTS), survive, found)
        finally:
            logging.disable(logging.NOTSET)
        assert found.counts == {"fail: RuntimeError: by itself": 1}
        assert counts["acts"] == 1


def test_results_without_their_calls_are_found() -> None:
    call = AiMessage("c", [ToolExecutionRequest("1", "tool", "{}"), ToolExecutionRequest("2", "tool", "{}")])
    results = [ToolExecutionResultMessage("1", "tool", "r1"), ToolExecutionResultMessage("2", "tool", "r2")]
    assert without_calls([UserMessage("q"), call, *results]) == []
    assert without_calls([UserMessage("q"), *results]) == ["r1", "r2"]
    assert without_calls([call, results[0], UserMessage("q"), results[1]]) == ["r2"]
