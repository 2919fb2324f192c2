"""The test database on the nodes of Citus: ``CHATMEMORY_TEST_CITUS_WORKERS`` has their ports, with commas."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.db import connection

__all__ = ["WORKERS", "distributed"]

WORKERS = [port for port in os.environ.get("CHATMEMORY_TEST_CITUS_WORKERS", "").split(",") if port]
"""The ports of the nodes beside the coordinator; without them the tests are on one server."""

_SHARDS = 4


@contextmanager
def distributed(blocker: Any) -> Iterator[None]:
    """Distribute the tables of the test database; without workers only change their constraints.

    Args:
        blocker: pytest-django's, which lets nobody use the database before a test does.
    """
    with blocker.unblock():
        if WORKERS:
            _join()
        call_command("chatmemory_distribute", constraints_only=not WORKERS, shards=_SHARDS, stdout=StringIO())
        connection.close()  # what the command sets is for new connections
        settings = connection.get_connection_params()
    yield
    for port in WORKERS:
        _run(settings | {"dbname": "postgres", "port": port}, f'DROP DATABASE "{settings["dbname"]}" WITH (FORCE)')


def _join() -> None:
    """Make the test database on each worker, and the workers nodes of the coordinator's."""
    settings = connection.get_connection_params()
    name, host = settings["dbname"], settings["host"]
    for port in WORKERS:
        _run(settings | {"dbname": "postgres", "port": port}, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        _run(settings | {"dbname": "postgres", "port": port}, f'CREATE DATABASE "{name}"')
        _run(settings | {"port": port}, "CREATE EXTENSION citus")
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS citus")
        cursor.execute("SELECT citus_set_coordinator_host(%s, current_setting('port')::int)", [host])
        for port in WORKERS:
            cursor.execute("SELECT citus_add_node(%s, %s)", [host, int(port)])


def _run(settings: dict[str, object], statement: str) -> None:
    import psycopg  # an extra

    wanted = {key: settings[key] for key in ("host", "port", "user", "password", "dbname") if settings.get(key)}
    with psycopg.connect(**wanted, autocommit=True) as other:  # type: ignore[arg-type]
        other.execute(statement.encode())
