"""The turns a second of a machine that does nothing else, to choose the size of a server by."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.filling import new_conversation
from benchmarks.places import new_place
from benchmarks.texts import ai_text, user_text
from benchmarks.windows import WINDOWS
from benchmarks.worker import in_workers, wait_for_others
from chatmemory import AiMessage, UserMessage
from chatmemory.models import Conversation

__all__ = ["measure_throughput", "take_turns"]

_HISTORY = 1_000  # messages: the window is full
_CONVERSATIONS = 20  # of each process


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
            done = in_workers(
                "benchmarks.throughput.take_turns",
                [{"keys": keys[number::processes], "seconds": seconds} for number in range(processes)],
                {"CHATMEMORY_BENCHMARK_ENGINE": engine, "CHATMEMORY_BENCHMARK_DATABASE": place.database},
            )
        turns = sum(part["turns"] for part in done)
        figures[window] = {"turns_per_second": turns / seconds}
        if done[0]["busy"] is not None:
            own = sum(part["own"] for part in done)
            figures[window]["turns_per_second_per_core"] = turns / done[0]["busy"]
            figures[window]["share_of_application"] = own / done[0]["busy"]
    return figures


def take_turns(keys: list[str], seconds: float, starting: list[int]) -> dict[str, Any]:
    """Take turns in one process for ``seconds``, side by side with others.

    Returns:
        ``turns``; seconds of a core that this process took (``own``) and all processes of the machine (``busy``).
    """
    for key in keys:
        _turn(key, 0)
    wait_for_others(starting)
    end = time.monotonic() + seconds
    own, busy = time.process_time(), _busy()
    turns = 0
    while time.monotonic() < end:
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
