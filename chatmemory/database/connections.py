"""The database connections of this thread: given back while they are not used, and closed if they are dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

__all__ = [
    "close_all",
    "close_broken",
    "close_if_dead",
    "give_back",
    "is_in_transaction",
    "require_no_transaction",
    "without_dead_connection",
]


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the caller may have a transaction open; then the connection must stay."""
    return connection.in_atomic_block or not connection.get_autocommit()


def require_no_transaction(database: str, problem: str) -> None:
    """Check that the caller has no transaction open, but for that of a test case.

    Args:
        database: the alias.
        problem: what is wrong with a transaction here, and what to do.

    Raises:
        RuntimeError: there is one; its text is ``problem``.
    """
    if not connections[database].in_atomic_block:
        return
    try:
        with transaction.atomic(using=database, durable=True):  # Django knows which transactions are test cases'
            pass
    except RuntimeError:
        raise RuntimeError(problem) from None


def give_back() -> None:
    """Give back the connections of this thread, as Django does at the end of a request.

    Each goes back to its pool, or is closed, or stays if ``CONN_MAX_AGE`` says so. Those in a transaction stay, and
    those of SQLite, where connections are not scarce.
    """
    for connection in _idle():
        if connection.vendor != "sqlite":
            with suppress(Error):  # it may be dead already
                connection.close_if_unusable_or_obsolete()


def close_all() -> None:
    """Close the connections of this thread, or return them to their pools."""
    for connection in connections.all(initialized_only=True):
        with suppress(Error):  # it may be dead already
            connection.close()


def close_broken() -> None:
    """Close the connections of this thread that an earlier error showed to be dead."""
    for connection in _idle():
        if connection.errors_occurred:
            close_if_dead(connection)


def close_if_dead(connection: BaseDatabaseWrapper) -> None:
    """Close a connection that the database has ended, so that the next statement opens another.

    If it came from a pool, the others of the pool are checked, because they have probably ended, too.
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

    Django itself closes it only at the end of a request. Elsewhere every later statement would fail, too.
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
