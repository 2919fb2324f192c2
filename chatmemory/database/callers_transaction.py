"""Work of an event loop that runs within a transaction: ``asyncio.run(…)`` in ``transaction.atomic()``, for example.

The work is done in another thread, whose connection cannot get the locks that the transaction holds; and the
transaction does not end before the event loop does. On PostgreSQL both would wait for ever.

Neither asyncio nor Django offers a public way to notice such a transaction, and to bound the wait within one that must
be durable. What is private of them is in this module only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import Error, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from chatmemory.database.connections import is_lock_timeout

__all__ = ["beside_callers_transaction", "without_endless_wait"]

P = ParamSpec("P")
T = TypeVar("T")

_is_beside: ContextVar[bool] = ContextVar("chatmemory_is_beside_callers_transaction", default=False)

# How long it waits for a lock then, in seconds. SQLite waits as long as its timeout says, by default 5 seconds, too.
_PATIENCE = 5


def beside_callers_transaction(work: Callable[P, T]) -> Callable[P, T]:
    """Return ``work`` for another thread than this one, in which an event loop runs.

    If the sync code that runs the event loop has a transaction open, none of the transactions of ``work`` waits for a
    lock for ever, see :func:`without_endless_wait`.
    """
    if not _is_in_transaction_of_caller():
        return work

    @wraps(work)
    def beside(*args: P.args, **kwargs: P.kwargs) -> T:
        token = _is_beside.set(True)
        try:
            return work(*args, **kwargs)
        finally:
            _is_beside.reset(token)

    return beside


@contextmanager
def without_endless_wait(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Run a transaction, which waits for a lock 5 seconds at most if it runs :func:`beside_callers_transaction`.

    Raises:
        TransactionManagementError: it did not get the lock in that time.
    """
    if not _is_beside.get():
        yield
        return
    try:
        with _patience(connection):
            yield
    except OperationalError as error:
        if not is_lock_timeout(error):
            raise
        raise TransactionManagementError(
            "the conversation is locked, probably by the transaction within which this event loop runs: the loop uses "
            "another connection, and would wait for a transaction that waits for it. Commit before, or run the "
            "coroutine by async_to_sync(…), which uses the same connection, in place of asyncio.run(…) and the like: "
            "async_to_sync(Runner.run)(…) in place of Runner.run_sync(…)"
        ) from error


def _is_in_transaction_of_caller() -> bool:
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)  # within an event loop, Django gives each task connections of its own
    try:
        return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))
    finally:
        asyncio._set_running_loop(loop)


@contextmanager
def _patience(connection: BaseDatabaseWrapper) -> Iterator[None]:
    if connection.vendor == "postgresql":
        outer = transaction.atomic(using=connection.alias)
        outer._from_testcase = True  # type: ignore[attr-defined]  # what is durable may be within
        with outer:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{_PATIENCE}s'")  # a pooler may give each another session
            yield
    elif connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
            (before,) = cursor.fetchone()
            cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [_PATIENCE])
        try:
            yield
        finally:
            with suppress(Error), connection.cursor() as cursor:  # it may be dead
                cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [before])
    else:
        yield
