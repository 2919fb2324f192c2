"""Real processes that write and summarise at once, and some that are killed."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from chatmemory.verification import verify
from tests.database.test_writers import Start, start
from tests.support.compacting import check_summaries
from tests.support.cutting import wait_until_alone
from tests.support.factories import ConversationFactory
from tests.support.traffic_check import check_history, read_logs
from tests.support.traffic_processes import TrafficProcess

__all__ = ["start"]  # the fixture

pytestmark = pytest.mark.django_db(transaction=True)

KILLS = int(os.environ.get("CHATMEMORY_TEST_KILLS", "3"))


def kill_after(process: TrafficProcess, seconds: float) -> None:
    assert process.wait(timeout=seconds) is None
    process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"window": "tokens", "limit": 160, "low_water": 60, "whole_turns": True},
        {"window": "tokens", "limit": 300, "low_water": 60, "whole_turns": True, "keep_tool_results": 1},
    ],
)
def test_killed_workers_and_writers_lose_no_message_and_no_summary(
    settings: dict[str, Any], start: Start, tmp_path: Path
) -> None:
    """All workers but one are killed, and one of two writers."""
    conversation = ConversationFactory(**settings)
    chance = random.Random(1)

    role = "use tools" if "keep_tool_results" in settings else "add"
    writers = [start(role, "w0", 150, conversation), start(role, "w1", 100_000, conversation)]
    workers = [start("compact", f"c{number}", 1, conversation) for number in range(KILLS + 1)]
    for process in [*writers, *workers]:
        process.wait_for_begin()
    for process in [*workers[1:], writers[1]]:
        kill_after(process, 0.1 + chance.random() * 0.4)
    assert writers[0].wait(timeout=300) == 0
    until = time.monotonic() + 300
    while not is_acknowledged(tmp_path) and time.monotonic() < until:
        assert workers[0].wait(timeout=0.05) is None
    (tmp_path / "stop").touch()
    assert workers[0].wait(timeout=300) == 0
    wait_until_alone()
    logs = read_logs(tmp_path)
    assert check_history(conversation, logs) >= 150
    assert check_summaries(conversation, logs) >= 1
    assert list(verify()) == []


def is_acknowledged(folder: Path) -> bool:
    """Whether a summary was. On SQLite, whose lock is not fair, the first may come when the writers are done."""
    return any(record["act"] == "applied" for records in read_logs(folder).values() for record in records)
