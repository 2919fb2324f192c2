"""A PostgreSQL primary and its streaming replica: one that lags, and one that takes over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import configure, is_quick
from benchmarks.soak.failover import Failover
from benchmarks.soak.postgres import PostgresServer
from benchmarks.soak.rounds import repeat

__all__ = ["run_lagging", "run_promotion"]


def run_lagging(folder: Path, minutes: float) -> dict[str, Any]:
    """Run turns while reads go to a replica that has stopped replaying: every turn sees what was just written.

    Each round ends with the replica replaying again, and having the same rows.
    """
    with _pair(folder) as (primary, replica), _configured(primary, replica):
        from benchmarks.soak.lagging import Lagging

        return repeat(folder, minutes, {"turns": 1 if is_quick() else 100}, Lagging(replica).round)


def run_promotion(folder: Path, minutes: float) -> dict[str, Any]:
    """Kill the primary under load and promote its synchronous replica; the writers go on by themselves.

    The roles swap with every round. At the end a replica that was not synchronous is promoted: there the same checks
    must find that messages are lost.
    """
    with _pair(folder) as (primary, replica), _configured(primary, replica):
        failover = Failover(primary, replica)
        figures = repeat(folder, minutes, {"promotions": 2}, failover.round)
        figures["acknowledged in all rounds, and there after the last"] = failover.check_all_rounds()
        figures["longest time without an answer, in seconds"] = round(failover.longest_pause, 1)
        return figures | failover.lose(folder / "asynchronous")


@contextmanager
def _pair(folder: Path) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    place = folder / "servers"
    place.mkdir()
    with PostgresServer(place, "first") as first, PostgresServer(place, "second", replica_of=first) as second:
        yield first, second


@contextmanager
def _configured(primary: PostgresServer, replica: PostgresServer) -> Iterator[None]:
    # Each alias knows both servers, and asks them in turn for the one that it needs, so that the roles can swap.
    both = {"HOST": "127.0.0.1,127.0.0.1", "PORT": f"{primary.port},{replica.port}"}
    configure(
        {
            "default": primary.database(**both, OPTIONS={"target_session_attrs": "read-write"}),
            "replica": primary.database(**both, OPTIONS={"target_session_attrs": "prefer-standby"}),
        }
    )
    from django.db import connections

    try:
        yield
    finally:
        connections.close_all()
