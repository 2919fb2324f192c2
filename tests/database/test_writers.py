"""Real processes that write to one conversation at once, and some that are killed."""

from __future__ import annotations

import copy
import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.support.cutting import cut_all_others, wait_until_alone
from tests.support.factories import ConversationFactory
from tests.support.traffic_check import check_history, check_order, read_logs
from tests.support.traffic_processes import STEPS, TrafficProcess, new_barrier
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS = 8
EACH = int(os.environ.get("CHATMEMORY_TEST_ADDS", "30"))
KILLS = int(os.environ.get("CHATMEMORY_TEST_KILLS", "12"))


# What a project may set for its connections, beside Django's defaults.
OPTIONS: dict[str, dict[str, Any]] = {
    "sqlite": {"recommended": {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"}},
    "postgresql": {
        "serializable": {"isolation_level": 4},
        "repeatable read": {"isolation_level": 3},
        "pool": {"pool": True},
        "prepared statements": {"server_side_binding": True},
    },
    "mysql": {
        "serializable": {"isolation_level": "serializable"},
        "repeatable read": {"isolation_level": "repeatable read"},
        "snapshot isolation": {
            "isolation_level": "serializable",
            "init_command": "SET SESSION innodb_snapshot_isolation = ON",
        },
    },
}


Start = Callable[..., TrafficProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process of traffic; at the end of the test none is left."""
    processes = []

    def start(*args: Any, **kwargs: Any) -> TrafficProcess:
        processes.append(TrafficProcess(tmp_path, *args, **kwargs))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def count_changes(logs: dict[str, list[dict[str, Any]]]) -> int:
    """Return how often another process said the next message than the one before."""
    said = [
        (position, name)
        for name, records in logs.items()
        for record in records
        if record["act"] == "done"
        for position in record["positions"]
    ]
    return sum(one[1] != next_[1] for one, next_ in pairwise(sorted(said)))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"low_water": 60, "whole_turns": True}], ids=["LangChain4j's", "a mark"])
def test_all_is_as_if_one_process_had_done_it(settings: dict[str, Any], start: Start, tmp_path: Path) -> None:
    """Batches and single messages, keys delivered twice; others read, rewrite, clear and change the window."""
    conversation = ConversationFactory(window="messages", limit=7, **settings)
    before = copy.copy(conversation)
    readers = [start("read", f"r{number}", 20, conversation) for number in range(2)]
    for process in readers:
        process.wait_for_begin()
    barrier = new_barrier(WRITERS + 1)
    processes = [start("add", f"w{number}", EACH, conversation, barrier=barrier) for number in range(WRITERS)]
    processes.append(start("meddle", "m", EACH // 2, conversation, barrier=barrier))
    assert [process.wait(timeout=600) for process in processes] == [0] * len(processes)
    (tmp_path / "stop").touch()
    assert [process.wait(timeout=300) for process in readers] == [0] * len(readers)
    logs = read_logs(tmp_path)
    assert check_history(conversation, logs) == WRITERS * EACH
    assert check_order(conversation, before, logs) >= 40
    assert count_changes(logs) >= STEPS * (WRITERS - 1), "they did not write at the same time"


@pytest.mark.parametrize("way", OPTIONS[connection.vendor])
def test_nothing_is_lost_whatever_the_connections_are_set_to(way: str, start: Start, tmp_path: Path) -> None:
    conversation = ConversationFactory(window="tokens", limit=60)
    before = copy.copy(conversation)
    options = OPTIONS[connection.vendor][way]
    # As `migrate` does in a project: of two connections that are the first to turn WAL on, SQLite refuses one at once.
    assert start("add", "first", 0, conversation, options).wait(timeout=300) == 0
    given = 20, conversation, options, new_barrier(3)
    processes = [start("add", f"w{number}", *given) for number in range(3)]
    assert [process.wait(timeout=300) for process in processes] == [0] * len(processes)
    logs = read_logs(tmp_path)
    assert check_history(conversation, logs) == 60
    check_order(conversation, before, logs)
    assert count_changes(logs) >= STEPS * 2, "they did not write at the same time"


def test_killed_writers_leave_whole_batches_or_nothing(start: Start, tmp_path: Path) -> None:
    conversation = ConversationFactory(window="tokens", limit=100)
    before = copy.copy(conversation)
    chance = random.Random(1)
    running: dict[str, TrafficProcess] = {}
    number = 0
    for _ in range(KILLS):
        while len(running) < 4:
            running[f"k{number}"] = start("add", f"k{number}", 100_000, conversation)
            number += 1
        process = running.pop(chance.choice(list(running)))
        process.wait_for_begin()  # killed while it starts, it would prove nothing
        assert process.wait(timeout=chance.random() * 0.1) is None
        process.kill()
    for process in running.values():
        process.kill()
    wait_until_alone()
    logs = read_logs(tmp_path)
    assert check_history(conversation, logs) > 0
    check_order(conversation, before, logs)


if connection.vendor != "sqlite":  # which has no connections to cut

    def test_nothing_is_lost_when_connections_are_cut(start: Start, tmp_path: Path) -> None:
        conversation = ConversationFactory(window="messages", limit=7)
        before = copy.copy(conversation)
        chance = random.Random(1)
        processes = [start("insist", f"i{number}", 2000, conversation) for number in range(3)]
        for process in processes:
            process.wait_for_begin()

        def count(act: str) -> int:
            return sum(record["act"] == act for records in read_logs(tmp_path).values() for record in records)

        # Not until they are through: they could be so before a busy machine comes to cut.
        while count("done") < 450 or not count("failed"):
            done = count("done")
            cut_all_others()
            time.sleep(chance.random() * 0.3)
            # On a busy machine the next cut would come before anybody had connected again.
            wait_until(lambda done=done: count("done") > done, "nothing is added")
        (tmp_path / "stop").touch()
        assert [process.wait(timeout=300) for process in processes] == [0] * len(processes)
        logs = read_logs(tmp_path)
        assert check_history(conversation, logs) == count("done") == count("asked") >= 450
        check_order(conversation, before, logs)
