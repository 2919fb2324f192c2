"""Retry a transaction that the database rolled back because it collided with another."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import OperationalError, connections

from chatmemory.database.callers_transaction import without_endless_wait
from chatmemory.database.connections import has_collided, is_in_transaction, without_dead_connection

__all__ = ["retry"]

T = TypeVar("T")

# How long in all, in seconds; the pauses grow from the first to the longest.
_PATIENCE = 30.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.5


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
