"""A list of one's own conversations with 8 and with 32 shards, relative to the same list on one PostgreSQL."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.soak.citus.cluster import configured, distribute, new_cluster
from benchmarks.soak.citus.one_database import OneDatabase, routed
from benchmarks.soak.crew import is_quick
from benchmarks.soak.postgres import PostgresServer

__all__ = ["run"]

_SHARDS = [8, 32]
_OWNERS = 50
_EACH = 50
_WARM_UP = 5


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Request the lists in turn, each from its own servers, and return the ratios of the medians."""
    with _databases(folder) as aliases, routed() as router:
        return _measure(router, aliases)


@contextmanager
def _databases(folder: Path) -> Iterator[list[str]]:
    with ExitStack() as running:
        databases = {"default": running.enter_context(PostgresServer(folder)).database()}
        for shards in _SHARDS:
            place = folder / f"{shards}-shards"
            place.mkdir()
            place.chmod(0o755)
            coordinator = running.enter_context(new_cluster(place))[0]
            databases[f"{shards} shards"] = coordinator.database()
        running.enter_context(configured(databases))
        for shards in _SHARDS:
            distribute(f"{shards} shards", shards)
        yield list(databases)


def _measure(router: OneDatabase, aliases: list[str]) -> dict[str, Any]:
    from rest_framework.test import APIClient

    clients = {}
    for alias in aliases:
        router.alias = alias
        clients[alias] = APIClient()
        clients[alias].force_authenticate(_fill())
    seconds: dict[str, list[float]] = {alias: [] for alias in aliases}
    chance = random.Random(0)
    for number in range(_WARM_UP + (5 if is_quick() else 200)):
        for alias in chance.sample(aliases, len(aliases)):
            router.alias = alias
            begun = perf_counter()
            answer = clients[alias].get("/api/conversations/")
            if number >= _WARM_UP:
                seconds[alias].append(perf_counter() - begun)
            assert (answer.status_code, len(answer.json()["results"])) == (200, _EACH), answer.content
    medians = {alias: statistics.median(taken) for alias, taken in seconds.items()}
    return {
        f"list of {_EACH} of {_OWNERS * _EACH} conversations, {alias}, relative to one PostgreSQL": (
            f"{medians[alias] / medians['default']:.2f}"
        )
        for alias in aliases[1:]
    }


def _fill() -> Any:
    """Make conversations of many owners, and return one of these."""
    from django.contrib.auth import get_user_model

    from chatmemory.models import Conversation

    users = [get_user_model()._default_manager.create_user(f"user{number}") for number in range(_OWNERS)]
    for owner in users:
        Conversation.objects.bulk_create([Conversation(owner=owner) for _ in range(_EACH)])
    return users[0]
