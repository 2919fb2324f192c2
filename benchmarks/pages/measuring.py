"""The times of the admin's pages of a conversation, of a long history and of a short one in turns."""

from __future__ import annotations

import random
from statistics import median
from time import perf_counter, process_time
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from benchmarks.filling import new_conversation
from benchmarks.measuring import settle
from benchmarks.places import new_place
from benchmarks.windows import WINDOWS
from chatmemory.models import Conversation

__all__ = ["measure_pages"]

_WARM_UP = 5


def measure_pages(engine: str, *, rounds: int, short: int, long: int) -> list[dict[str, Any]]:
    """Measure each page of two conversations with the same window, without HTTP.

    Args:
        engine: ``sqlite`` or ``postgres``.
        rounds: how often each page is asked for, all pages in turns.
        short: messages of one conversation; more than the window holds.
        long: messages of the other.

    Returns:
        for each page the medians ``short_ms`` and ``long_ms`` and their ``ratio``; those of the processor's time of
        this process alone, without a server of the database, begin with ``cpu_``.
    """
    with new_place(engine) as place:
        user = get_user_model()._default_manager.create_superuser("ann")
        histories = {length: _owned(user, length) for length in (short, long)}
        settle(place)
        client = Client()
        client.force_login(user)
        addresses = {
            (name, length): f"/admin/chatmemory/conversation/{conversation.pk}/{suffix}"
            for length, conversation in histories.items()
            for name, suffix in _pages(length).items()
        }
        times = _times(client, addresses, rounds)
    return [
        {"engine": engine, "page": name, **_compared(times[name, short], times[name, long])} for name in _pages(short)
    ]


def _pages(length: int) -> dict[str, str]:
    """Return the addresses of the pages, by their names."""
    middle, last_answer = length // 2, length - 1
    return {
        "memory": "change/",
        "history, newest": f"change/?position={length - 1}",
        "history, middle": f"change/?position={middle}",
        "history, beginning": "change/?position=0",
        "what the model had, last answer": f"memory/?answer={last_answer}",
        "what the model had, middle": f"memory/?answer={middle // 2 * 2 + 1}",
    }


def _owned(user: Any, history: int) -> Conversation:
    conversation = new_conversation(WINDOWS["tokens"], history)
    conversation.owner = user
    conversation.save()
    return conversation


def _times(client: Client, addresses: dict[Any, str], rounds: int) -> dict[Any, list[tuple[float, float]]]:
    """Return the seconds and the processor's seconds of each round, by page; a round has an order of its own."""
    times: dict[Any, list[tuple[float, float]]] = {page: [] for page in addresses}
    pages = list(addresses)
    order = random.Random(rounds)
    for number in range(_WARM_UP + rounds):
        order.shuffle(pages)
        for page in pages:
            start, busy = perf_counter(), process_time()
            answer = client.get(addresses[page])
            taken = perf_counter() - start, process_time() - busy
            if answer.status_code != 200:
                raise RuntimeError(f"{addresses[page]} was answered with {answer.status_code}")
            if number >= _WARM_UP:
                times[page].append(taken)
    return times


def _compared(short: list[tuple[float, float]], long: list[tuple[float, float]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for index, prefix in enumerate(("", "cpu_")):
        few, many = (1000 * median(taken[index] for taken in times) for times in (short, long))
        figures |= {f"{prefix}short_ms": few, f"{prefix}long_ms": many, f"{prefix}ratio": many / few}
    return figures
