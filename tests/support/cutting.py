"""What a server's operator does to the connections of others: cut them, or wait until there are none."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

from django.db import OperationalError, connection

__all__ = ["cut_all_others", "others", "own_process", "wait_until_alone", "wait_until_ended"]

# Of this database, but the own one, and those that the nodes of Citus keep to each other.
_OTHERS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend' AND application_name NOT LIKE 'citus%'",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}
_OWN = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
_CUT = {"postgresql": "SELECT pg_terminate_backend(%s)", "mysql": "KILL %s"}


def own_process() -> int:
    """The server's number for the own connection."""
    with connection.cursor() as cursor:
        cursor.execute(_OWN[connection.vendor])
        return int(cursor.fetchone()[0])


def cut_all_others() -> list[int]:
    """Cut them, and say which ones there were."""
    theirs = others()
    with connection.cursor() as cursor:
        for process in theirs:
            with suppress(OperationalError):  # it ended by itself
                cursor.execute(_CUT[connection.vendor], [process])
    return theirs


def wait_until_alone(timeout: float = 60) -> None:
    """Until the server has noticed the end of all others: what a killed process had asked for may still be done.

    Raises:
        AssertionError: there are others still.
    """
    until = time.monotonic() + timeout
    while connection.vendor != "sqlite" and (left := others()):
        assert time.monotonic() < until, f"there are connections of others still: {left}"
        time.sleep(0.05)


def wait_until_ended(processes: Iterable[int], timeout: float = 60) -> None:
    """Until the server has ended these connections.

    Raises:
        AssertionError: one is there still.
    """
    until = time.monotonic() + timeout
    while left := set(processes).intersection(others()):
        assert time.monotonic() < until, f"there are still: {left}"
        time.sleep(0.01)


def others() -> list[int]:
    """The server's numbers for all other connections to this database. SQLite has no server, so it has none."""
    if connection.vendor == "sqlite":
        return []
    with connection.cursor() as cursor:
        cursor.execute(_OTHERS[connection.vendor])
        return [process for (process,) in cursor.fetchall()]
