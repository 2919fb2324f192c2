"""The processor time of the databases for a turn: on Citus, on one PostgreSQL, and with prepared statements."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.soak.citus.cluster import configured, distribute, new_cluster
from benchmarks.soak.citus.one_database import OneDatabase, routed
from benchmarks.soak.crew import is_quick
from benchmarks.soak.postgres import PostgresServer

__all__ = ["run"]

_PREPARED = {"server_side_binding": True, "prepare_threshold": 5}
_CONVERSATIONS = 8
_TURNS = 80
_WARM_UP = 2
_TEXT = "x" * 200

Servers = dict[str, Sequence[PostgresServer]]


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Do rounds of turns on each in turn, and return the ratios of the medians."""
    with _databases(folder) as servers, routed() as router:
        return _measure(router, servers)


@contextmanager
def _databases(folder: Path) -> Iterator[Servers]:
    """Start one PostgreSQL and a cluster, and yield the servers of each database."""
    with PostgresServer(folder) as one, new_cluster(folder) as nodes:
        databases = {
            "default": one.database(),
            "one PostgreSQL, prepared statements": one.database(OPTIONS=_PREPARED),
            "Citus, at the coordinator": nodes[0].database(),
            "Citus, at the coordinator, prepared statements": nodes[0].database(OPTIONS=_PREPARED),
            "Citus, at a worker": nodes[1].database(),
        }
        with configured(databases):
            distribute("Citus, at the coordinator")
            yield {alias: nodes if "Citus" in alias else [one] for alias in databases}


def _measure(router: OneDatabase, servers: Servers) -> dict[str, Any]:
    from chatmemory import AiMessage, UserMessage
    from chatmemory.models import Conversation

    conversations = {}
    for alias in servers:
        router.alias = alias
        conversations[alias] = [Conversation.objects.create(window="messages", limit=20) for _ in range(_CONVERSATIONS)]
        for conversation in conversations[alias]:
            conversation.memory.add(*(UserMessage(_TEXT) for _ in range(25)))
    seconds: dict[str, list[float]] = {alias: [] for alias in servers}
    chance = random.Random(0)
    for number in range(_WARM_UP + (1 if is_quick() else 12)):
        for alias in chance.sample(list(servers), len(servers)):
            router.alias = alias
            before = sum(node.processor_seconds() for node in servers[alias])
            for turn in range(_TURNS):
                memory = conversations[alias][turn % _CONVERSATIONS].memory
                memory.add(UserMessage(_TEXT))
                memory.messages()
                memory.add(AiMessage(_TEXT))
            if number >= _WARM_UP:
                seconds[alias].append(sum(node.processor_seconds() for node in servers[alias]) - before)
    medians = {alias: statistics.median(taken) for alias, taken in seconds.items()}
    return {
        f"{alias}, relative to one PostgreSQL": f"{median / medians['default']:.2f}"
        for alias, median in medians.items()
        if alias != "default"
    }
