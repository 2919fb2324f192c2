"""The turns a second of a machine that does nothing else, to choose the size of a server by."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.filling import new_conversation
from benchmarks.places import new_place
from benchmarks.texts import ai_text, user_text
from benchmarks.windows import WINDOWS
from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation

__all__ = ["measure_throughput", "take_turns"]

_HISTORY = 1_000  # messages: the window is full
_CONVERSATIONS = 20  # of each process
_STARTING = 10.0  # seconds, in which all processes are ready


def measure_throughput(engine: str, *, windows: list[str], seconds: float) -> dict[str, dict[str, float]]:
    """Measure turns by a process on each core, each in conversations of its own, read anew for every turn.

    Returns:
        by window: ``turns_per_second`` of the machine, ``turns_per_second_per_core`` over the time that cores were
        busy, and of that ``share_of_application``, the rest being the database's and the system's. Where the system
        does not say how busy its cores were (``/proc/stat``), only the first.
    """
    figures: dict[str, dict[str, float]] = {}
    processes = os.cpu_count() or 1
    for window in windows:
        with new_place(engine) as place:
            keys = [str(new_conversation(WINDOWS[window], _HISTORY).pk) for _ in range(processes * _CONVERSATIONS)]
            begin = time.time() + _STARTING
            answers = [
                _start(engine, place.database, keys[number::processes], begin, seconds) for number in range(processes)
            ]
            done = [json.loads(process.communicate()[0]) for process in answers]
        turns = sum(part["turns"] for part in done)
        figures[window] = {"turns_per_second": turns / seconds}
        if done[0]["busy"] is not None:
            own = sum(part["own"] for part in done)
            figures[window]["turns_per_second_per_core"] = turns / done[0]["busy"]
            figures[window]["share_of_application"] = own / done[0]["busy"]
    return figures


def _start(engine: str, database: str, keys: list[str], begin: float, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"CHATMEMORY_BENCHMARK_ENGINE": engine, "CHATMEMORY_BENCHMARK_DATABASE": database},
        text=True,
    )
    assert process.stdin is not None
    given = {"keys": keys, "begin": begin, "seconds": seconds}
    process.stdin.write(json.dumps({"call": "benchmarks.throughput.take_turns", "with": given}))
    process.stdin.close()
    process.stdin = None  # communicate() would flush it
    return process


def take_turns(keys: list[str], begin: float, seconds: float) -> dict[str, Any]:
    """Take turns in one process from the moment ``begin`` on.

    Returns:
        ``turns``; seconds of a core that this process took (``own``) and all processes of the machine (``busy``).
    """
    for key in keys:
        _turn(key, 0)
    time.sleep(begin - time.time())  # an error if that is over: the processes would not run side by side
    own, busy = time.process_time(), _busy()
    turns = 0
    while time.time() < begin + seconds:
        turns += 1
        _turn(keys[turns % len(keys)], turns)
    after = _busy()
    return {
        "turns": turns,
        "own": time.process_time() - own,
        "busy": None if busy is None or after is None else after - busy,
    }


def _turn(key: str, number: int) -> None:
    memory = Conversation.objects.get(pk=key).memory  # as a request does
    memory.add(UserMessage(user_text(number)))
    memory.add(AiMessage(ai_text(number)))
    memory.messages()


def _busy() -> float | None:
    """Return the seconds for which the machine's cores were busy so far."""
    try:
        user, nice, system, _idle, _waiting, *interrupts = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    except OSError:
        return None
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")
