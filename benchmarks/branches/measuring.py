"""The CPU time of going back, in a process of its own for each engine. On SQLite, the database's work is in it."""

from __future__ import annotations

import gc
import random
import statistics
from collections.abc import Callable
from time import process_time
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from benchmarks.filling import message_at, new_conversation
from benchmarks.places import new_place
from benchmarks.windows import WINDOWS
from chatmemory.models import Conversation

__all__ = ["measure_branches"]

_SHORT = 100
_WARM_UP = 2
_FAR_BACK = 40  # messages: more than the window has, so that all of it is restored


def measure_branches(engine: str, *, messages: int, rounds: int) -> list[dict[str, Any]]:
    """Return what each act took in a conversation with ``messages`` messages, and in one with 100.

    The additions to a conversation that went back, and to one that never did, take turns.
    """
    with new_place(engine):
        owner = get_user_model()._default_manager.create_user("ann")
        client = Client()
        taken: dict[tuple[str, int], list[float]] = {}
        for count in (_SHORT, messages):
            plain, branched = (_conversation(owner, count) for _ in range(2))
            branched.rewind(before=count - 2)
            acts = {
                "addition, one branch": lambda plain=plain: plain.memory.add(message_at(0)),
                "addition, after going back": lambda branched=branched: branched.memory.add(message_at(0)),
                "rewind by 2": lambda branched=branched, count=count: branched.rewind(before=count - 2),
                f"rewind by {_FAR_BACK}": lambda branched=branched, count=count: branched.rewind(
                    before=count - _FAR_BACK
                ),
                "switch": lambda branched=branched, count=count: branched.switch(count - 1),
                "GET tree/": lambda branched=branched: _get(client, branched, "tree/"),
                "GET messages/": lambda branched=branched: _get(client, branched, "messages/?ordering=-position"),
            }
            gc.collect()
            gc.freeze()  # the texts of this benchmark are not those of a server
            for name, seconds in _rounds(acts, rounds).items():
                taken[name, count] = seconds
    return [
        {
            "engine": engine,
            "act": name,
            "short_ms": 1000 * statistics.median(taken[name, _SHORT]),
            "long_ms": 1000 * statistics.median(taken[name, messages]),
        }
        for name in dict.fromkeys(name for name, _count in taken)
    ]


def _conversation(owner: Any, count: int) -> Conversation:
    conversation = new_conversation(WINDOWS["messages"], count)
    Conversation.objects.filter(pk=conversation.pk).update(owner=owner)
    conversation.refresh_from_db()
    return conversation


def _rounds(acts: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each act in each round, whose acts are in a random order."""
    chance = random.Random(rounds)
    taken: dict[str, list[float]] = {name: [] for name in acts}
    for round in range(_WARM_UP + rounds):
        for name in chance.sample(list(acts), len(acts)):
            began = process_time()
            acts[name]()
            if round >= _WARM_UP:
                taken[name].append(process_time() - began)
    return taken


def _get(client: Client, conversation: Conversation, part: str) -> None:
    answer = client.get(f"/api/conversations/{conversation.pk}/{part}")
    assert answer.status_code == 200, answer.content
