"""Workers that summarise, and writers, are killed at random moments: no message and no summary is lost or twice."""

from __future__ import annotations

import random
import subprocess
import time
from collections import deque
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import Crew, Process, is_quick
from benchmarks.soak.engines import engine as running
from benchmarks.soak.rounds import Round, errors_in, repeat

__all__ = ["run"]

_LEAST = 40
_IN_A_ROUND = 10
_LONGEST = 0.8  # seconds that a process may have left
_AT_ONCE = 3  # of which one is about to be killed, while the others start
_SUMMARIES = 10  # in a round at least
_PATIENCE = 120  # seconds for them: SQLite's lock is not fair
_WINDOWS: list[dict[str, Any]] = [
    {"window": "tokens", "limit": 300, "low_water": 60, "whole_turns": True, "keep_tool_results": 1},
    {"window": "tokens", "limit": 160, "low_water": 60, "whole_turns": True},
    {"window": "tokens", "limit": 300},
]


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Run rounds of 10 processes killed by SIGKILL, until there were 40 at least, and the others work on."""
    with running(engine, folder):
        least = {"kills": 3 if is_quick() else _LEAST, "summaries": 1, "tool results cleared": 1}
        return repeat(folder, minutes, least, _round)


def _round(this: Round) -> dict[str, Any]:
    from chatmemory.models import Conversation
    from chatmemory.verification import verify
    from tests.support.compacting import check_summaries
    from tests.support.cutting import wait_until_alone
    from tests.support.traffic_check import check_history, read_logs

    conversation = Conversation.objects.create(**_WINDOWS[this.number % len(_WINDOWS)])
    chance = random.Random(this.seed)
    kills = 3 if is_quick() else _IN_A_ROUND
    with this.crew() as crew:
        bystanders = [
            crew.start("insist", "i", 1_000_000, conversation),
            crew.start("compact", "c", 1, conversation),
            crew.start("read", "r", 1, conversation),
        ]
        writer = crew.start("use tools", "w", 1_000_000, conversation)
        crew.wait_until_ready([*bystanders, writer])
        doomed: deque[Process] = deque()
        for number in range(kills + _AT_ONCE - 1):
            role = "compact" if number % 2 else "use tools"
            doomed.append(crew.start(role, f"k{number}", 1_000_000, conversation))
            if len(doomed) == _AT_ONCE:
                _kill(doomed.popleft(), chance.random() * _LONGEST, crew)
        _wait_for_summaries(this.folder / "c.jsonl", 2 if is_quick() else _SUMMARIES)
        for process in [*doomed, writer]:
            crew.kill(process)
        crew.stop()
        crew.finish(bystanders, timeout=60)
    wait_until_alone()
    logs = read_logs(this.folder)
    assert not errors_in(logs), f"others were disturbed: {errors_in(logs)}"
    acknowledged = check_history(conversation, logs)
    summaries = check_summaries(conversation, logs)
    found = list(verify(Conversation.objects.filter(pk=conversation.pk)))
    assert not found, f"the verification found {found}"
    acts = [record["act"] for records in logs.values() for record in records]
    return {
        "acknowledged": acknowledged,
        "kills": kills,
        "summaries": summaries,
        "summaries acknowledged": acts.count("applied"),
        "tool results cleared": conversation.messages.filter(eviction_reason="tool_cleared").count(),
    }


def _wait_for_summaries(log: Path, count: int) -> None:
    until = time.monotonic() + _PATIENCE
    while log.read_text().count('"applied"') < count:
        assert time.monotonic() < until, f"there are fewer than {count} summaries in {log}"
        time.sleep(0.1)


def _kill(process: Process, after: float, crew: Crew) -> None:
    crew.wait_until_ready([process])  # killed while it starts, it would prove nothing
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        crew.kill(process)
    else:
        crew.finish([process])
        raise AssertionError("a process has ended before it was killed")
