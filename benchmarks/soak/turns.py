"""Turns over HTTP under uvicorn and gunicorn, with clients on bad networks and workers that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import is_quick
from benchmarks.soak.engines import engine as running
from benchmarks.soak.rounds import Round, repeat

__all__ = ["run"]

_CLIENTS = 20
_CONVERSATIONS = 10
_TURNS = 200
_TURN_TIMEOUT = "4"
_SERVERS: dict[str, tuple[str, ...]] = {"uvicorn": (), "gunicorn": ("--threads=8",)}


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Run rounds of 200 turns by 20 clients, first under uvicorn, then under gunicorn, and so on."""
    least = {f"turns under {server}": _turns() for server in _SERVERS}
    with running(engine, folder):
        return repeat(folder, minutes, least, _round)


def _turns() -> int:
    return 40 if is_quick() else _TURNS


def _round(this: Round) -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    from chatmemory.models import Conversation
    from tests.support.cutting import wait_until_alone
    from tests.support.server import HttpClient, start_server
    from tests.support.signalled import Signals
    from tests.support.turn_clients import TurnClients, check_turns

    this.folder.mkdir()
    server = list(_SERVERS)[this.number % len(_SERVERS)]
    user: Any = get_user_model()._default_manager
    owner = user.create_user(f"user-{this.number}", password="only for this")
    windows = [{"window": "messages", "limit": 8}, {"window": "tokens", "limit": 200}]
    keys = [str(Conversation.objects.create(owner=owner, **windows[number % 2]).pk) for number in range(_CONVERSATIONS)]
    environment = {
        "DJANGO_SETTINGS_MODULE": "benchmarks.soak.settings_turns",
        "CHATMEMORY_TEST_SIGNALS": str(this.folder),
        "CHATMEMORY_TEST_TURN_TIMEOUT": _TURN_TIMEOUT,
    }
    log = this.folder / "server.txt"
    with (
        start_server(log, environment, asgi=server == "uvicorn", options=_SERVERS[server]) as (port, process),
        ThreadPoolExecutor(1) as pool,
    ):
        signals = Signals(this.folder)
        client = HttpClient(port, f"user-{this.number}", "only for this")
        clients = TurnClients(client, keys, signals, this.seed)
        killed = _kill_workers(process, pool.submit(clients.run, _CLIENTS, _turns()), random.Random(this.seed))
    wait_until_alone()
    more = check_turns(clients.said, signals)
    call_command("chatmemory_verify")  # exits with 1 if something is wrong
    assert "Traceback" not in log.read_text(), log.read_text()[-5_000:]
    return {
        f"turns under {server}": sum(map(len, clients.said.values())),
        "workers killed": killed,
        "calls of the model beyond one a turn": more,
        **{name: count for name, count in clients.figures.items() if ":" not in name},
        "errors": Counter({name: count for name, count in clients.figures.items() if ":" in name}),
    }


def _kill_workers(server: subprocess.Popen[bytes], clients: Future[None], chance: random.Random) -> int:
    """Kill a worker now and then until all clients have their answers, and return how many were killed."""
    from tests.support.server import workers_of

    killed = 0
    while not clients.done():
        time.sleep(chance.uniform(0.5, 2))
        if (workers := workers_of(server)) and not clients.done():
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                killed += 1
    clients.result()
    return killed
