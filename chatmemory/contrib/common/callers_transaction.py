"""Changes from an event loop that runs within a transaction: ``Runner.run_sync()`` of the Agents SDK, for example.

The change is made in another thread, whose connection cannot get the locks that the transaction holds; and the
transaction does not end before the event loop does. On PostgreSQL both would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from chatmemory.database.retry import has_collided, retry

__all__ = ["without_endless_wait"]

P = ParamSpec("P")
T = TypeVar("T")

# Seconds. SQLite waits as long as its timeout says, which is 5 seconds by default, too.
_PATIENCE = 5

# PostgreSQL's lock_not_available, MariaDB's lock wait timeout.
_SQLSTATE = "55P03"
_MYSQL_CODE = 1205


def without_endless_wait(database: str, change: Callable[P, T]) -> Callable[P, T]:
    """Return ``change`` for another thread; if the caller has a transaction open, ``change`` waits at most 5 seconds.

    Args:
        database: the alias.
        change: changes the database in transactions of its own.

    Raises:
        TransactionManagementError: the returned function did not get the lock in that time.
    """
    if not _is_in_transaction_of_caller(database):
        return change

    @wraps(change)
    def changed(*args: P.args, **kwargs: P.kwargs) -> T:
        connection = connections[database]

        def transact() -> T:
            with _patience(connection), transaction.atomic(using=database):
                if connection.vendor == "postgresql":
                    with connection.cursor() as cursor:
                        cursor.execute(f"SET LOCAL lock_timeout = '{_PATIENCE}s'")
                return change(*args, **kwargs)

        try:
            return transact() if connection.vendor == "sqlite" else retry(database, transact)
        except OperationalError as error:
            if not _is_lock_timeout(connection, error):
                raise
            raise TransactionManagementError(
                "the conversation is locked, probably by the transaction within which this event loop runs: the loop "
                "uses another connection, and would wait for a transaction that waits for it. Commit before, or call "
                "async_to_sync(…), which uses the same connection: async_to_sync(Runner.run)(…) in place of "
                "Runner.run_sync(…)"
            ) from error

    return changed


def _is_in_transaction_of_caller(database: str) -> bool:
    """Return whether the sync code that runs the event loop of this thread has a transaction open."""
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)  # within an event loop, Django gives each task connections of its own
    try:
        found = connections.all(initialized_only=True)
        return any(connection.alias == database and connection.in_atomic_block for connection in found)
    finally:
        asyncio._set_running_loop(loop)


@contextmanager
def _patience(connection: BaseDatabaseWrapper) -> Iterator[None]:
    if connection.vendor != "mysql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
        (before,) = cursor.fetchone()
        cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [_PATIENCE])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [before])


def _is_lock_timeout(connection: BaseDatabaseWrapper, error: OperationalError) -> bool:
    if connection.vendor == "sqlite":
        return has_collided(error)
    cause = error.__cause__
    codes = {getattr(cause, "sqlstate", None), getattr(cause, "pgcode", None)}
    return _SQLSTATE in codes or (connection.vendor == "mysql" and error.args[:1] == (_MYSQL_CODE,))
