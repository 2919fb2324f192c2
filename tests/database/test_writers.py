"""Real processes that write to one conversation at once, and some that are killed."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from chatmemory.models import Conversation
from tests.support.cutting import cut_all_others, wait_until_alone
from tests.support.factories import ConversationFactory
from tests.support.traffic_check import check_history, check_order, read_logs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS = 8
EACH = int(os.environ.get("CHATMEMORY_TEST_ADDS", "60"))
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


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process of traffic; at the end of the test none is left."""
    processes = []

    def start(
        role: str,
        name: str,
        count: int,
        conversation: Conversation,
        options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.base",
            "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
            "CHATMEMORY_TEST_OPTIONS": json.dumps(options or {}),
        }
        arguments = [role, name, str(count), name, str(conversation.pk), str(tmp_path / f"{name}.jsonl")]
        command = [sys.executable, "-m", "tests.support.traffic", *arguments]
        processes.append(subprocess.Popen(command, env=environment, **kwargs))
        return processes[-1]

    yield start
    for process in processes:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    with process:
        process.kill()


@pytest.mark.parametrize("settings", [{}, {"low_water": 60, "whole_turns": True}], ids=["LangChain4j's", "a mark"])
def test_all_is_as_if_one_process_had_done_it(settings: dict[str, Any], start: Start, tmp_path: Path) -> None:
    """Batches and single messages, keys delivered twice; others read, rewrite, clear and change the window."""
    conversation = ConversationFactory(window="messages", limit=7, **settings)
    before = copy.copy(conversation)
    processes = [start("add", f"w{number}", EACH, conversation) for number in range(WRITERS)]
    processes.append(start("meddle", "m", EACH // 2, conversation))
    readers = [start("read", f"r{number}", 20, conversation) for number in range(2)]
    assert [process.wait(timeout=600) for process in processes] == [0] * len(processes)
    (tmp_path / "stop").touch()
    assert [process.wait(timeout=60) for process in readers] == [0] * len(readers)
    logs = read_logs(tmp_path)
    assert check_history(conversation, logs) == WRITERS * EACH
    assert check_order(conversation, before, logs) >= 40


@pytest.mark.parametrize("way", OPTIONS[connection.vendor])
def test_nothing_is_lost_whatever_the_connections_are_set_to(way: str, start: Start, tmp_path: Path) -> None:
    conversation = ConversationFactory(window="tokens", limit=60)
    before = copy.copy(conversation)
    given = 20, conversation, OPTIONS[connection.vendor][way]
    processes = [start("add", f"w{number}", *given) for number in range(3)]
    assert [process.wait(timeout=300) for process in processes] == [0] * len(processes)
    logs = read_logs(tmp_path)
    assert check_history(conversation, logs) == 60
    check_order(conversation, before, logs)


def test_killed_writers_leave_whole_batches_or_nothing(start: Start, tmp_path: Path) -> None:
    conversation = ConversationFactory(window="tokens", limit=100)
    before = copy.copy(conversation)
    chance = random.Random(1)
    running: dict[str, subprocess.Popen[bytes]] = {}
    number = 0
    for _ in range(KILLS):
        while len(running) < 4:
            running[f"k{number}"] = start("add", f"k{number}", 100_000, conversation, stdout=subprocess.PIPE)
            number += 1
        process = running.pop(chance.choice(list(running)))
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"  # killed while it starts, it would prove nothing
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=chance.random() * 0.1)
        end(process)
    for process in running.values():
        end(process)
    wait_until_alone()
    logs = read_logs(tmp_path)
    assert check_history(conversation, logs) > 0
    check_order(conversation, before, logs)


if connection.vendor != "sqlite":  # which has no connections to cut

    def test_nothing_is_lost_when_connections_are_cut(start: Start, tmp_path: Path) -> None:
        conversation = ConversationFactory(window="messages", limit=7)
        before = copy.copy(conversation)
        chance = random.Random(1)
        processes = [start("insist", f"i{number}", 150, conversation, stdout=subprocess.PIPE) for number in range(3)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"

        def acknowledged() -> int:
            return sum(record["act"] == "done" for records in read_logs(tmp_path).values() for record in records)

        while any(process.poll() is None for process in processes):
            done = acknowledged()
            cut_all_others()
            time.sleep(chance.random() * 0.3)
            # On a busy machine the next cut would come before anybody had connected again.
            wait_until(
                lambda done=done: acknowledged() > done or all(process.poll() is not None for process in processes),
                "nothing is added",
            )
        assert [process.returncode for process in processes] == [0] * len(processes)
        logs = read_logs(tmp_path)
        assert any(record["act"] == "failed" for records in logs.values() for record in records)
        assert check_history(conversation, logs) == 450
        check_order(conversation, before, logs)
