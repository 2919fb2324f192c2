"""Writers that are killed at random moments leave whole batches or nothing."""

from __future__ import annotations

import copy
import random
import subprocess
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soak.crew import Crew, Process, is_quick
from benchmarks.soak.engines import engine as running
from benchmarks.soak.rounds import Round, errors_in, repeat

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["run"]

_LEAST = 200
_IN_A_ROUND = 25
_LONGEST = 0.8  # seconds that a writer may have left
_AT_ONCE = 3  # of which one is about to be killed, while the others start
_BYSTANDERS = 2


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Run rounds of 25 writers killed by SIGKILL, until there were 200 at least, and the others work on."""
    with running(engine, folder):
        return repeat(folder, minutes, {"kills": 3 if is_quick() else _LEAST, "acknowledged": 1}, _round)


def _round(this: Round) -> dict[str, Any]:
    from tests.support.cutting import wait_until_alone
    from tests.support.traffic_check import check_history, check_order, read_logs

    conversation = this.conversation()
    before = copy.copy(conversation)
    chance = random.Random(this.seed)
    kills = 3 if is_quick() else _IN_A_ROUND
    with this.crew() as crew:
        bystanders = [crew.start("insist", f"i{number}", 1_000_000, conversation) for number in range(_BYSTANDERS)]
        bystanders.append(crew.start("read", "r", 1, conversation))
        writers: deque[Process] = deque()
        for number in range(kills + _AT_ONCE - 1):
            writers.append(crew.start("add", f"k{number}", 1_000_000, conversation))
            if len(writers) == _AT_ONCE:
                _kill(writers.popleft(), chance.random() * _LONGEST, crew)
        for writer in writers:
            crew.kill(writer)
        crew.stop()
        crew.finish(bystanders, timeout=60)
    wait_until_alone()
    logs = read_logs(this.folder)
    assert not errors_in(logs), f"others were disturbed: {errors_in(logs)}"
    figures = {
        "acknowledged": check_history(conversation, logs),
        "kills": kills,
        "snapshots compared": check_order(conversation, before, logs),
        "positions indexed afterwards": _index(conversation),
    }
    return Counter(figures) + Counter(_open_ends(conversation, logs))


def _index(conversation: Conversation) -> int:
    """Index what no killed writer has, and return how much that was."""
    from chatmemory.contrib.search.checking import wrong_documents
    from chatmemory.contrib.search.indexing import index_all

    count = index_all(conversation)
    findings = list(map(str, wrong_documents(type(conversation).objects.filter(pk=conversation.pk), repair=False)))
    assert not findings, findings
    return count


def _kill(writer: Process, after: float, crew: Crew) -> None:
    crew.wait_until_ready([writer])  # killed while it starts, it would prove nothing
    try:
        writer.wait(timeout=after)
    except subprocess.TimeoutExpired:
        crew.kill(writer)
    else:
        crew.finish([writer])
        raise AssertionError("a writer has ended before it was killed")


def _open_ends(conversation: Conversation, logs: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Return what became of the requests of writers that were killed."""
    there = set(conversation.messages.values_list("text", flat=True))
    for records in logs.values():
        if records and records[-1]["act"] == "asked":
            yield "unacknowledged and " + ("there" if there.issuperset(records[-1]["said"]) else "absent")
