"""Retry a transaction that the database rolled back because it collided with another."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import OperationalError, connections

from chatmemory.database.callers_transaction import without_endless_wait
from chatmemory.database.connections import is_in_transaction, without_dead_connection

__all__ = ["has_collided", "retry"]

T = TypeVar("T")

# How long in all, in seconds; the pauses grow from the first to the longest.
_PATIENCE = 30.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.5

# Serialization failure and deadlock on PostgreSQL. On MariaDB a deadlock (also a Galera cluster's refusal to certify,
# which may hit even a read) and a row that changed since it was read (innodb_snapshot_isolation). Busy and locked on
# SQLite. Each means that nothing of the transaction was done.
_SQLSTATES = {"40001", "40P01"}
_MYSQL_CODES = {1020, 1213}
_SQLITE_CODES = {5, 6}


def has_collided(error: OperationalError) -> bool:
    """Return whether the database rolled a transaction back because it collided with another."""
    cause = error.__cause__
    if getattr(cause, "sqlstate", None) in _SQLSTATES or getattr(cause, "pgcode", None) in _SQLSTATES:
        return True
    if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_CODES:
        return True
    return bool(error.args) and error.args[0] in _MYSQL_CODES


def retry(database: str, transaction: Callable[[], T]) -> T:
    """Run ``transaction`` and return its result; while it collides with others run it again, for half a minute at most.

    If the caller has a transaction open, it runs once: only the caller can begin that transaction again.

    Args:
        database: the alias.
        transaction: runs one whole transaction, and leaves nothing else behind if that fails.

    Raises:
        TransactionManagementError: see :func:`~chatmemory.database.callers_transaction.without_endless_wait`.
    """
    connection = connections[database]
    if is_in_transaction(connection):
        return transaction()
    until = time.monotonic() + _PATIENCE
    pause = _FIRST_PAUSE
    while True:
        try:
            with without_dead_connection(connection), without_endless_wait(connection):
                return transaction()
        except OperationalError as error:
            if not has_collided(error) or time.monotonic() > until:
                raise
        time.sleep(random.uniform(0, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)
