"""A cluster of Citus: a coordinator and two workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import configure, versions
from benchmarks.soak.postgres import DATABASE, PostgresServer

__all__ = ["configured", "distribute", "distributed", "join", "new_cluster"]

_SETTINGS = {
    "shared_preload_libraries": "citus",
    "max_prepared_transactions": "200",  # one on each node that a two-phase commit changes
    "max_connections": "200",
    "timezone": "Asia/Tokyo",  # another one than that of Django's connections
    "citus.node_conninfo": "sslmode=disable",  # the certificate would be looked for in this user's home
}
_NAMES = ["coordinator", "worker1", "worker2"]


@contextmanager
def new_cluster(folder: Path) -> Iterator[list[PostgresServer]]:
    """Run a coordinator and two workers, in this order, and end them afterwards.

    Raises:
        RuntimeError: initdb is missing, or Citus is.
    """
    with ExitStack() as running:
        nodes = []
        for name in _NAMES:
            try:
                nodes.append(running.enter_context(PostgresServer(folder, name, settings=_SETTINGS)))
            except RuntimeError as error:
                if 'could not access file "citus"' in str(error):
                    raise RuntimeError(
                        "Citus is missing: install it for the newest PostgreSQL of this machine, from its packages "
                        "or from https://github.com/citusdata/citus with `make install-all`"
                    ) from error
                raise
        join(nodes, DATABASE)
        [(version,)] = nodes[0].query("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
        versions.append(f"Citus {version}")
        yield nodes


def join(nodes: Sequence[PostgresServer], database: str, *, with_host: bool = True) -> None:
    """Make a database of the coordinator and the workers one of Citus.

    Args:
        nodes: the coordinator and the workers.
        database: its name; each node has it.
        with_host: whether the coordinator is told its own address.
    """
    coordinator, *workers = nodes
    for node in nodes:
        node.query("CREATE EXTENSION citus", database)
    if with_host:
        coordinator.query(f"SELECT citus_set_coordinator_host('127.0.0.1', {coordinator.port})", database)
    for worker in workers:
        coordinator.query(f"SELECT citus_add_node('127.0.0.1', {worker.port})", database)


@contextmanager
def configured(databases: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Make ``databases`` those of this process, with the app that keeps names; close their connections at the end."""
    os.environ["CHATMEMORY_TEST_CITUS"] = "1"
    configure(databases)
    from django.db import connections

    try:
        yield
    finally:
        connections.close_all()


def distribute(alias: str, shards: int = 32) -> None:
    """Make and distribute the tables of a coordinator's database."""
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", database=alias, verbosity=0)
    call_command("chatmemory_distribute", database=alias, shards=shards)
    connections.close_all()  # what the command sets is for new connections


@contextmanager
def distributed(nodes: Sequence[PostgresServer]) -> Iterator[None]:
    """Make all nodes databases of this process, with the tables distributed.

    The coordinator is the database ``default``, too, and a worker the database ``chats``.
    """
    named = {node.name: node.database() for node in nodes}
    with configured({"default": nodes[0].database(), "chats": nodes[1].database(), **named}):
        distribute("default")
        yield
