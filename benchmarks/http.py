"""The API over HTTP beside a bare REST framework view."""

from __future__ import annotations

import http.client
import json
import random
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

from django.contrib.auth import get_user_model

from benchmarks.filling import new_conversation
from benchmarks.places import new_place
from benchmarks.server import running_server
from benchmarks.texts import user_text
from benchmarks.windows import WINDOWS
from chatmemory.models import Conversation

__all__ = ["measure_http"]

_WORKERS = 2
_PATIENCE = 30  # seconds, for what takes milliseconds
_WARM_UP = 10
_HISTORY = 1_000  # messages: the window is full


def measure_http(engine: str, *, rounds: int) -> dict[str, Any]:
    """Return ``requests``: the medians in milliseconds by what is asked, each of ``rounds``, all interleaved."""
    with new_place(engine) as place:
        user = get_user_model()._default_manager.create_superuser("ann")
        conversation = _owned(user, _HISTORY)
        with running_server(place, f"--workers={_WORKERS}", "--log-level=warning") as server:
            requests = _requests(server.port, str(conversation.pk), rounds)
    return {"requests": requests}


def _owned(user: Any, history: int) -> Conversation:
    conversation = new_conversation(WINDOWS["tokens"], history)
    conversation.owner = user
    conversation.save()
    return conversation


def _requests(port: int, conversation: str, rounds: int) -> dict[str, float]:
    # A worker of this class closes each connection after its answer; this opens the next one by itself.
    server = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)

    def ask(method: str, path: str, body: Any, status: int) -> None:
        server.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = server.getresponse()
        content = answer.read()
        if answer.status != status:
            raise RuntimeError(f"{method} {path} was answered with {answer.status}: {content[:500]!r}")

    def message(number: int) -> dict[str, Any]:
        return {"type": "USER", "contents": [{"type": "TEXT", "text": user_text(number)}]}

    own = f"/api/conversations/{conversation}"
    return _medians(
        {
            "bare view: insert": lambda number: ask(
                "POST", f"/bare/{conversation}/messages/", {"type": "USER", "text": user_text(number)}, 201
            ),
            "chatmemory: add": lambda number: ask("POST", f"{own}/messages/", message(number), 201),
            "chatmemory: read the memory": lambda number: ask("GET", f"{own}/memory/", None, 200),
        },
        rounds,
    )


def _medians(calls: dict[str, Callable[[int], None]], rounds: int) -> dict[str, float]:
    """Return milliseconds; every round has one call of each, in an order of its own."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    order = random.Random(rounds)
    for number in range(_WARM_UP + rounds):
        order.shuffle(names)
        for name in names:
            start = perf_counter()
            calls[name](number)
            if number >= _WARM_UP:
                seconds[name].append(perf_counter() - start)
    return {name: 1000 * statistics.median(taken) for name, taken in seconds.items()}
