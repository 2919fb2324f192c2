"""A server that is stopped, killed, or cuts all connections, while processes add until they are acknowledged."""

from __future__ import annotations

import copy
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import Crew, is_quick
from benchmarks.soak.engines import Server
from benchmarks.soak.engines import engine as running
from benchmarks.soak.rounds import Round, errors_in, repeat

__all__ = ["run"]

_WRITERS = 4
_PATIENCE = 90.0


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Run rounds in which each of the disturbances comes twice, in random order, until each came six times at least."""
    times = 1 if is_quick() else 6
    with running(engine, folder) as server:
        assert server is not None, f"{engine} is no server"
        return repeat(folder, minutes, dict.fromkeys(_ACTS, times), lambda this: _round(this, server))


def _round(this: Round, server: Server) -> dict[str, Any]:
    from django.db import connection

    from tests.support.cutting import wait_until_alone
    from tests.support.traffic_check import check_history, check_order, read_logs

    conversation = this.conversation()
    before = copy.copy(conversation)
    chance = random.Random(this.seed)
    acts = list(_ACTS) * (1 if is_quick() else 2)
    chance.shuffle(acts)
    with this.crew() as crew:
        processes = [crew.start("insist", f"i{number}", 1_000_000, conversation) for number in range(_WRITERS)]
        processes += [crew.start("watch", f"r{number}", 1, conversation) for number in range(2)]
        crew.wait_until_ready(processes)
        for act in acts:
            time.sleep(chance.uniform(0.1, 1.5))
            connection.close()  # or it would be the own one that fails
            _ACTS[act](server)
            _wait_for_progress(crew)
        crew.stop()
        crew.finish(processes, timeout=_PATIENCE)
    wait_until_alone()
    logs = read_logs(this.folder)
    acknowledged = check_history(conversation, logs)
    compared = check_order(conversation, before, logs)
    return {"acknowledged": acknowledged, **Counter(acts), "snapshots compared": compared, "errors": errors_in(logs)}


def _restart(server: Server) -> None:
    server.stop()
    server.start()


def _crash(server: Server) -> None:
    server.kill()
    server.start()


def _cut(server: Server) -> None:
    from tests.support.cutting import cut_all_others

    for _ in range(10):
        cut_all_others()
        time.sleep(0.05)


_ACTS: dict[str, Callable[[Server], None]] = {
    "orderly restarts": _restart,
    "servers killed": _crash,
    "times all connections were cut": _cut,
}


def _wait_for_progress(crew: Crew) -> None:
    """Wait until every writer has got an answer again, without help."""
    before, begun = _answers(crew), time.monotonic()
    while any(now <= then for now, then in zip(_answers(crew), before, strict=True)):
        assert time.monotonic() < begun + _PATIENCE, f"a writer got no answer for {_PATIENCE:.0f} seconds"
        time.sleep(0.1)


def _answers(crew: Crew) -> list[int]:
    return [(crew.folder / f"i{number}.jsonl").read_text().count('"act": "done"') for number in range(_WRITERS)]
