"""The connections of this thread: given back while nothing is asked, and closed where they are dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

__all__ = ["close_broken", "close_if_dead", "give_back", "is_in_transaction", "without_dead_connection"]


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a transaction of the caller's may be open, which must not lose its connection."""
    return connection.in_atomic_block or not connection.get_autocommit()


def give_back() -> None:
    """Give back the connections of this thread, as Django does at the end of a request.

    So one goes back to its pool, is closed, or stays if ``CONN_MAX_AGE`` says so. Those with a transaction stay, and
    SQLite's do, for files are not scarce.
    """
    for connection in _idle():
        if connection.vendor != "sqlite":
            with suppress(Error):  # it may be dead already
                connection.close_if_unusable_or_obsolete()


def close_broken() -> None:
    """Close the connections of this thread that an earlier error showed to be dead."""
    for connection in _idle():
        if connection.errors_occurred:
            close_if_dead(connection)


def close_if_dead(connection: BaseDatabaseWrapper) -> None:
    """Close a connection that the database has ended, so that the next statement opens another.

    In a pool the others have probably ended, too, and are looked at.
    """
    if connection.connection is None or connection.in_atomic_block:
        return
    if connection.is_usable():
        connection.errors_occurred = False
        return
    pool: Any = getattr(connection, "pool", None)
    with suppress(Error):
        connection.close()
    if pool:
        pool.check()


@contextmanager
def without_dead_connection(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Run statements outside of transactions; if they fail because the connection is dead, close it.

    Django does that at the end of a request alone. Elsewhere everything that follows would fail, too.
    """
    if connection.errors_occurred:
        close_if_dead(connection)
    try:
        yield
    except Exception:  # a driver's own exceptions come through, too
        if connection.errors_occurred:
            close_if_dead(connection)
        raise


def _idle() -> list[BaseDatabaseWrapper]:
    """Return the open connections of this thread that are in no transaction."""
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.connection is not None and not connection.in_atomic_block and connection.autocommit
    ]
