"""Turns of assistants under uvicorn, whose model fails, whose clients are killed, and whose workers are, too."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import is_quick
from benchmarks.soak.engines import engine as running
from benchmarks.soak.rounds import Round, repeat

__all__ = ["run"]

_CONVERSATIONS = 20
_CLIENTS = 10
_FAILURES = "0.1"
_TURN_TIMEOUT = "5"
_LEAST = 500
_PATIENCE = 600.0

Client = subprocess.Popen[bytes]


def run(folder: Path, minutes: float, engine: str) -> dict[str, Any]:
    """Run rounds of 500 turns over 20 conversations, ten clients at once."""
    least = {"turns answered": 50 if is_quick() else _LEAST}
    with running(engine, folder):
        return repeat(folder, minutes, least, _round)


def _round(this: Round) -> dict[str, Any]:
    from chatmemory.models import Conversation
    from chatmemory.verification import verify
    from tests.support.cutting import wait_until_alone
    from tests.support.talk_check import check_talk

    this.folder.mkdir()
    windows = [{"window": "messages", "limit": 30}, {"window": "tokens", "limit": 800}]
    conversations = [
        Conversation.objects.create(**windows[number % 2]) for number in range(4 if is_quick() else _CONVERSATIONS)
    ]
    keys = [str(conversation.pk) for conversation in conversations]
    turns = (50 if is_quick() else _LEAST) // _CLIENTS
    with _uvicorn(this.folder / "server.txt") as (port, server):
        killed = _run_clients(this, port, server, turns, keys)
    wait_until_alone()
    records = _records(this.folder)
    answered = [record for record in records if record["act"] == "done"]
    assert len(answered) == len({record["text"] for record in answered}) == turns * _CLIENTS
    figures = Counter(killed)
    for conversation, key in zip(conversations, keys, strict=True):
        here = [record for record in records if record["conversation"] == key]
        answers = {record["text"]: record["answer"] for record in here if record["act"] == "done"}
        check_talk(conversation.messages.all(), {record["text"] for record in here}, answers)
        figures["messages"] += conversation.messages.history().count()
        figures["evicted"] += conversation.messages.evicted().count()
    findings = [str(finding) for finding in verify()]
    assert not findings, findings
    failures = [record["problem"] for record in records if record["act"] == "failed"]
    return {
        "turns answered": len(answered),
        **figures,
        "errors": dict(Counter(re.sub(r"[0-9a-f-]{36}|memory-\d+", "…", problem) for problem in failures)),
    }


def _run_clients(
    this: Round, port: int, server: subprocess.Popen[bytes], turns: int, keys: list[str]
) -> dict[str, int]:
    """Wait until all clients have their answers; meanwhile kill clients, which come back, and workers."""
    chance = random.Random(this.seed)
    killed = {"clients killed": 0, "workers killed": 0}

    def start(number: int) -> Client:
        given = [str(port), f"c{number}", str(turns), this.seed, str(this.folder / f"c{number}.jsonl"), *keys]
        return subprocess.Popen([sys.executable, "-m", "benchmarks.soak.assistant_client", *given])

    clients = {number: start(number) for number in range(_CLIENTS)}
    until = time.monotonic() + _PATIENCE
    try:
        while clients:
            assert time.monotonic() < until, "turns are not answered"
            time.sleep(chance.uniform(0.2, 0.6))
            for number, client in list(clients.items()):
                if client.poll() is not None:
                    assert client.returncode == 0, f"client {number} ended with {client.returncode}"
                    del clients[number]
            if clients and chance.random() < 0.7:
                number = chance.choice(list(clients))
                clients[number].kill()
                clients[number].wait()
                clients[number] = start(number)
                killed["clients killed"] += 1
            elif clients and chance.random() < 0.3:
                killed["workers killed"] += _kill_a_worker(server, chance)
    finally:
        for client in clients.values():
            client.kill()
            client.wait()
    return killed


def _kill_a_worker(server: subprocess.Popen[bytes], chance: random.Random) -> int:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    workers = [
        int(child)
        for child in children
        if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()  # multiprocessing's own
    ]
    if not workers:
        return 0
    with suppress(ProcessLookupError):
        os.kill(chance.choice(workers), signal.SIGKILL)
    return 1


@contextmanager
def _uvicorn(log: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    from tests.support.server import uvicorn

    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "benchmarks.soak.settings_assistant",
        "CHATMEMORY_TEST_FAILURES": _FAILURES,
        "CHATMEMORY_TEST_TURN_TIMEOUT": _TURN_TIMEOUT,
    }
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener, log.open("wb") as output:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            uvicorn(listener.fileno()),
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    try:
        yield port, process
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for log in folder.glob("c*.jsonl") for line in log.read_text().splitlines()]
