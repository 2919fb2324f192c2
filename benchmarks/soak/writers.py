"""Eight writers, one who rewrites, clears and changes the window, and two readers, in one conversation."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import is_quick
from benchmarks.soak.engines import engine as running
from benchmarks.soak.rounds import Round, repeat

__all__ = ["run"]

_WRITERS = 8


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Run rounds of 8 × 500 messages, single and in batches, some with keys that come twice."""
    with running(engine, folder):
        return repeat(folder, minutes, {"acknowledged": 1}, lambda this: _round(this, 40 if is_quick() else 500))


def _round(this: Round, each: int) -> dict[str, Any]:
    from tests.support.traffic_check import check_history, check_order, read_logs

    conversation = this.conversation()
    before = copy.copy(conversation)
    with this.crew() as crew:
        processes = [crew.start("add", f"w{number}", each, conversation) for number in range(_WRITERS)]
        processes.append(crew.start("meddle", "m", each // 2, conversation))
        readers = [crew.start("read", f"r{number}", 20, conversation) for number in range(2)]
        crew.finish(processes)
        crew.stop()
        crew.finish(readers, timeout=60)
    logs = read_logs(this.folder)
    acknowledged = check_history(conversation, logs)
    assert acknowledged == _WRITERS * each, f"{acknowledged} of {_WRITERS * each} messages were acknowledged"
    return {"acknowledged": acknowledged, "snapshots compared": check_order(conversation, before, logs)}
