"""The measurements, in a process of their own for each engine."""

from __future__ import annotations

import random
import statistics
from datetime import timedelta
from time import perf_counter, process_time
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.utils import timezone

from benchmarks.measuring import settle
from benchmarks.places import Place, new_place
from chatmemory.admin.lists import MOST_SORTED
from chatmemory.models import Conversation

__all__ = ["measure_lists"]

_FEW = 100  # as many as a page has
_OF_FEW = "all of the few"
_OWNERS = 50
_WARM_UP = 2
_ROWS_AT_ONCE = 2_000


def measure_lists(engine: str, *, many: int, rounds: int) -> list[dict[str, Any]]:
    """Return what each list of ``many`` conversations took over what the plain list of 100 took, which is one page.

    Every round has one request of each list and of the 100, in an order of its own.
    """
    chance = random.Random(many)
    with new_place(engine) as place:
        few = _Site(place, _FEW, chance)
        with new_place(engine) as place_of_many:
            site = _Site(place_of_many, many, chance)
            taken = _rounds(few, site, rounds)
    few_wall, few_cpu = map(statistics.median, taken.pop(_OF_FEW))
    return [
        {
            "engine": engine,
            "list": name,
            "few_ms": 1000 * few_wall,
            "wall_ms": 1000 * statistics.median(wall),
            "over_few": statistics.median(wall) / few_wall,
            "cpu_over_few": statistics.median(cpu) / few_cpu,
        }
        for name, (wall, cpu) in taken.items()
    ]


class _Site:
    """The conversations of a database of their own, and a client that lists them."""

    def __init__(self, place: Place, count: int, chance: random.Random) -> None:
        self._place = place
        self.count = count
        users = get_user_model()._default_manager
        self.owners = [users.create_superuser("ann"), *(users.create_user(f"user-{n}") for n in range(_OWNERS))]
        _fill(count, self.owners, chance)
        settle(place)
        if place.engine == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        self._client = Client()
        self._client.force_login(self.owners[0])

    def open(self) -> None:
        """Have the connection lead to these conversations, with its caches as they are after a request."""
        if connection.settings_dict["NAME"] != self._place.database:
            connection.close()
            connection.settings_dict["NAME"] = self._place.database
            self.ask("")

    def ask(self, query: str) -> None:
        """Request a list."""
        answer = self._client.get(f"/admin/chatmemory/conversation/?{query}")
        assert answer.status_code == 200, (query, answer.status_code)


def _lists(owner: Any, many: int) -> dict[str, str]:
    week = (timezone.now() - timedelta(days=7)).strftime("%Y-%m-%d+00:00:00%%2B00:00")
    sorted_if_few = {
        "by title": "o=1",
        "by owner": "o=-2",
        "by evicted": "o=5",
        "by evicted, then retained": "o=-5.4",
        "full, by evicted": "fullness=full&o=-5",
    }
    return {
        "all": "",
        "page 2": "p=2",
        f"page {min(many, MOST_SORTED) // _FEW}": f"p={min(many, MOST_SORTED) // _FEW}",
        **(sorted_if_few if many <= MOST_SORTED else {}),
        "by retained": "o=-4",
        "by last activity, oldest first": "o=6",
        "of an owner": f"owner={owner}",
        "without owner": "owner=none",
        "window of tokens": "window__exact=tokens",
        "empty": "fullness=empty",
        "less than half": "fullness=low",
        "half or more": "fullness=high",
        "90% or more": "fullness=full",
        "with evicted": "evicted=yes",
        "without evicted": "evicted=no",
        "past 7 days": f"updated_at__gte={week}",
        "tokens, full, evicted, page 5": "window__exact=tokens&fullness=full&evicted=yes&p=5",
        "full, by retained": "fullness=full&o=-4",
    }


def _rounds(few: _Site, many: _Site, rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return seconds by list: those that passed, and those of this process."""
    lists = {_OF_FEW: "", **_lists(many.owners[1].pk, many.count)}
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in lists}
    names = list(lists)
    order = random.Random(rounds)
    for number in range(_WARM_UP + rounds):
        order.shuffle(names)
        for name in names:
            site = few if name == _OF_FEW else many
            site.open()
            start, start_cpu = perf_counter(), process_time()
            site.ask(lists[name])
            wall, cpu = perf_counter() - start, process_time() - start_cpu
            if number >= _WARM_UP:
                seconds[name][0].append(wall)
                seconds[name][1].append(cpu)
    many.open()
    return seconds


def _fill(count: int, owners: list[Any], chance: random.Random) -> None:
    """Insert conversations without messages, with the counters of some that have any number."""
    activity = Conversation._meta.get_field("updated_at")
    activity.auto_now = False  # type: ignore[attr-defined]  # they were not all active a moment ago
    try:
        for start in range(0, count, _ROWS_AT_ONCE):
            rows = [_conversation(owners, chance) for _ in range(min(_ROWS_AT_ONCE, count - start))]
            Conversation.objects.bulk_create(rows)
    finally:
        activity.auto_now = True  # type: ignore[attr-defined]


def _conversation(owners: list[Any], chance: random.Random) -> Conversation:
    window, limit = chance.choice([("messages", 20), ("messages", 100), ("tokens", 2_000), ("tokens", 8_000)])
    used = min(limit, int(limit * chance.choice([0, 0.2, 0.6, 0.95, 1]) * chance.uniform(0.9, 1)))
    retained = used if window == "messages" else used // 60
    said = retained + chance.choice([0, 0, 5, 400])
    made = Conversation(
        owner=chance.choice([None, *owners]),
        title=f"Conversation {chance.randrange(1_000_000)} about the tea that was ordered",
        metadata={"channel": "mail", "topic": "tea"},
        window=window,
        limit=limit,
        updated_at=timezone.now() - timedelta(seconds=chance.uniform(0, 365 * 86_400)),
    )
    counters = {"version": said, "next_position": said, "message_count": said, "retained_count": retained}
    for name, value in {**counters, "retained_tokens": retained * 60}.items():
        setattr(made, name, value)
    return made
