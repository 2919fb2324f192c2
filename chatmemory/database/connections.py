"""Connections, the meaning of database errors, the database's clock, and transactions that are retried.

Connections of this thread are released while they are not used, and closed if they are dead. Each engine has its own
exceptions and codes: on SQLite and MariaDB, a missing column is an ``OperationalError``, like a lost connection. All
processes share the database's clock.

An event loop may run in a transaction, for example with ``asyncio.run(…)`` in ``transaction.atomic()``. Its work runs
in another thread, whose connection cannot get the locks of the transaction, and the transaction ends only after the
event loop. On PostgreSQL, both would deadlock. Neither asyncio nor Django offers a public way to detect such a
transaction, or to limit the wait in a durable transaction. Only this module uses their private attributes.
"""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from django.core.exceptions import ImproperlyConfigured
from django.db import (
    DatabaseError,
    Error,
    InterfaceError,
    InternalError,
    OperationalError,
    connections,
    router,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now
from django.db.transaction import TransactionManagementError
from django.utils.module_loading import import_string

from chatmemory.conf import problem_of_path, setting
from chatmemory.core.asynchronous import ThreadContext, ThreadNeeds
from chatmemory.models import Conversation

P = ParamSpec("P")
T = TypeVar("T")


_SQLITE_LOCKED = {5, 6}

# Serialization failure and deadlock on PostgreSQL. On MariaDB, a deadlock (also if a Galera cluster refuses to certify,
# which may affect even a read), and a row that changed since it was read (innodb_snapshot_isolation). In each case, the
# transaction was rolled back.
_SQLSTATES_OF_COLLISIONS = {"40001", "40P01"}
_MYSQL_CODES_OF_COLLISIONS = {1020, 1213}

# A lock was not available in time.
_SQLSTATE_OF_LOCK_TIMEOUT = "55P03"
_MYSQL_CODE_OF_LOCK_TIMEOUT = 1205

# Raised, even by a commit, when a node of a distributed database is lost.
_SQLSTATE_OF_INTERNAL_ERRORS = "XX000"

_SQLITE_MISSING = re.compile(r"no such (table|column)|has no column named")
_SQLSTATES_OF_MISSING = {"42P01", "42703"}
_MYSQL_CODES_OF_MISSING = {1054, 1109, 1146}

# A privilege or a routine is missing, or an unknown column requires a value.
_MYSQL_CODES_OF_DEFECTS = {1142, 1143, 1305, 1364, 1370}

# Out of memory, interrupted, I/O error, disk full, file not opened, locking protocol.
_SQLITE_CODES_OF_TROUBLE = {*_SQLITE_LOCKED, 7, 9, 10, 13, 14, 15}


class UtcNow(Now):
    """The current time by the database's clock, in UTC even if MariaDB has another time zone."""

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **extra)


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the caller may have an open transaction, so that the connection must stay."""
    return connection.in_atomic_block or not connection.get_autocommit()


def require_no_transaction(database: str, problem: str) -> None:
    """Check that the caller has no open transaction, except for that of a test case.

    Args:
        database: the alias.
        problem: the error message, which says why no transaction may be open, and what to do.

    Raises:
        RuntimeError: a transaction is open.
    """
    if not connections[database].in_atomic_block:
        return
    try:
        with transaction.atomic(using=database, durable=True):  # Django recognizes the transactions of test cases
            pass
    except RuntimeError:
        raise RuntimeError(problem) from None


def give_back() -> None:
    """Release the connections of this thread, like Django at the end of a request.

    Each is returned to its pool, closed, or kept if ``CONN_MAX_AGE`` says so. Connections in a transaction are kept,
    and so are those to SQLite, which are not scarce.
    """
    for connection in _idle():
        if connection.vendor != "sqlite":
            with suppress(Error):  # it may already be dead
                connection.close_if_unusable_or_obsolete()


def close_all() -> None:
    """Close the connections of this thread, or return them to their pools."""
    for connection in connections.all(initialized_only=True):
        with suppress(Error):  # it may already be dead
            connection.close()


def close_broken() -> None:
    """Close the connections of this thread that are dead after an earlier error."""
    for connection in _idle():
        if connection.errors_occurred:
            close_if_dead(connection)


def close_if_dead(connection: BaseDatabaseWrapper) -> None:
    """Close a connection that the database has ended, so that the next statement opens another one.

    If it came from a pool, check the other connections of the pool, because they have probably ended too.
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
    """Run statements outside of transactions. If they fail because the connection is dead, close it.

    Django closes it only at the end of a request. Otherwise, every later statement would fail too.
    """
    if connection.errors_occurred:
        close_if_dead(connection)
    try:
        yield
    except Exception:  # also exceptions of the driver itself
        if connection.errors_occurred:
            close_if_dead(connection)
        raise


def _idle() -> list[BaseDatabaseWrapper]:
    """Return the open connections of this thread that are not in a transaction."""
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.connection is not None and not connection.in_atomic_block and connection.autocommit
    ]


def has_collided(error: OperationalError) -> bool:
    """Return whether the database rolled a transaction back because of a collision with another one."""
    return (
        _sqlstate(error) in _SQLSTATES_OF_COLLISIONS
        or _sqlite_code(error) in _SQLITE_LOCKED
        or _mysql_code(error) in _MYSQL_CODES_OF_COLLISIONS
    )


def is_lock_timeout(error: OperationalError) -> bool:
    """Return whether a lock was not available in time."""
    return (
        _sqlstate(error) == _SQLSTATE_OF_LOCK_TIMEOUT
        or _sqlite_code(error) in _SQLITE_LOCKED
        or _mysql_code(error) == _MYSQL_CODE_OF_LOCK_TIMEOUT
    )


def lacks_migration(error: DatabaseError) -> bool:
    """Return whether a table or a column is missing."""
    if _sqlite_code(error):
        return bool(_SQLITE_MISSING.search(str(error.__cause__)))
    return _sqlstate(error) in _SQLSTATES_OF_MISSING or _mysql_code(error) in _MYSQL_CODES_OF_MISSING


def is_unavailable(error: Exception) -> bool:
    """Return whether the database, or one of its nodes, is unavailable or busy, so that a retry may help."""
    if isinstance(error, InternalError):
        return _sqlstate(error) == _SQLSTATE_OF_INTERNAL_ERRORS
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    if isinstance(error.__cause__, sqlite3.Error):
        return isinstance(error, OperationalError) and _sqlite_code(error) in _SQLITE_CODES_OF_TROUBLE
    return _mysql_code(error) not in _MYSQL_CODES_OF_DEFECTS | _MYSQL_CODES_OF_MISSING


def _sqlstate(error: Exception) -> str | None:
    cause = error.__cause__
    return getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)


def _sqlite_code(error: Exception) -> int:
    """Return the primary code of an SQLite error, or 0."""
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF


def _mysql_code(error: Exception) -> object:
    """Return the code of a MariaDB error; for other engines, something that is not a number."""
    return error.args[0] if error.args else None


# The maximum total time, in seconds. The pauses grow from the first to the longest.
_LONGEST_RETRY = 30.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.5


def retry(database: str, transaction: Callable[[], T]) -> T:
    """Run ``transaction`` and return its result. If it collides with others, retry for up to half a minute.

    In a transaction of the caller, run it once, because only the caller can retry that transaction.

    Args:
        database: the alias.
        transaction: runs one whole transaction, and has no other effects if the transaction fails.

    Raises:
        TransactionManagementError: see ``without_endless_wait``.
    """
    connection = connections[database]
    if is_in_transaction(connection):
        return transaction()
    until = time.monotonic() + _LONGEST_RETRY
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


_is_beside: ContextVar[bool] = ContextVar("chatmemory_is_beside_callers_transaction", default=False)

# The time in seconds to wait for a lock in this case. SQLite waits for its timeout, by default also 5 seconds.
_LOCK_PATIENCE = 5


def beside_callers_transaction(work: Callable[P, T]) -> Callable[P, T]:
    """Return ``work`` for another thread than this one, in which an event loop runs.

    If the sync code that runs the event loop has an open transaction, no transaction of ``work`` waits for a lock
    forever: see ``without_endless_wait``.
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
    """Run a transaction. If it runs in ``beside_callers_transaction``, it waits at most 5 seconds for a lock.

    Raises:
        TransactionManagementError: the lock was not available in time.
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
            "the conversation is locked, probably by the transaction in which this event loop runs: the loop uses "
            "another connection, and would deadlock with the transaction. Commit before, or run the coroutine with "
            "async_to_sync(…), which uses the same connection, instead of asyncio.run(…): for example, "
            "async_to_sync(Runner.run)(…) instead of Runner.run_sync(…)"
        ) from error


def _is_in_transaction_of_caller() -> bool:
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)  # in an event loop, Django gives each task its own connections
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
                # A pooler may use another session for each statement.
                cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_PATIENCE}s'")
            yield
    elif connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
            (before,) = cursor.fetchone()
            cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [_LOCK_PATIENCE])
        try:
            yield
        finally:
            with suppress(Error), connection.cursor() as cursor:  # it may be dead
                cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [before])
    else:
        yield


def _thread_context(path: Any) -> ThreadContext:
    """Return what the function that the setting ``THREAD_CONTEXT`` names returns for this thread.

    Raises:
        ImproperlyConfigured: it names no function, or one that returns something else.
        Exception: what the function raised.
    """
    if (problem := problem_of_path(path, "a function")) is not None:
        raise ImproperlyConfigured(f"CHATMEMORY['THREAD_CONTEXT'], {path!r}, {problem}.")
    context = import_string(path)()
    if not callable(context) or hasattr(context, "__enter__"):
        raise ImproperlyConfigured(
            f"CHATMEMORY['THREAD_CONTEXT'], {path!r}, must return a function that returns a context manager, such as "
            f"functools.partial(tenant_context, connection.tenant), but returned: {type(context).__name__}"
        )
    return context  # type: ignore[no-any-return]


class ConnectionNeeds(ThreadNeeds):
    """The needs of connections. Those of a separate thread are closed or returned to their pool after the work.

    ``CONN_MAX_AGE`` does not keep them, because otherwise each thread would keep a connection, alive or dead, until the
    process ends.

    Work stays in the thread of its caller, or in the thread that tasks without such a thread share,

    - while a transaction is open there, which was opened to change several things together;
    - if it changes a memory on SQLite, because all changes wait for one file, and more threads gain nothing;
    - if the database is an SQLite database in memory, because each thread would have a different one.
    """

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[object, WeakSet[BaseDatabaseWrapper]] = WeakKeyDictionary()
        """The connections that work used in each thread. They stay the same objects, and end with the thread."""

    def for_other_thread(self, work: Callable[[], T]) -> Callable[[], T]:
        return beside_callers_transaction(work)

    def run_in_callers(self, thread: object, work: Callable[[], T]) -> T:
        self._see(thread)
        return work()

    def may_stay(self, thread: object, *, is_change: bool) -> bool:
        seen = self._seen.get(thread)
        return not seen or self._stays(seen, is_change=is_change)

    def run_if_it_stays(self, thread: object, work: Callable[[], T], *, is_change: bool) -> tuple[T] | None:
        return (work(),) if self._stays(self._see(thread), is_change=is_change) else None

    def must_stay(self) -> bool:
        return self._stays(connections.all(), is_change=False)

    def run(self, work: Callable[[], T]) -> T:
        try:
            return work()
        finally:
            close_all()

    def thread_context(self) -> Callable[[], ThreadContext] | None:
        path = setting("THREAD_CONTEXT")
        return None if path is None else partial(_thread_context, path)

    def release(self) -> None:
        give_back()

    def _see(self, thread: object) -> Iterable[BaseDatabaseWrapper]:
        here = self._seen[thread] = WeakSet(connections.all())
        return here

    def _stays(self, those: Iterable[BaseDatabaseWrapper], *, is_change: bool) -> bool:
        # Attributes only, because the connection of another thread must not be used.
        if any(one.in_atomic_block or (one.connection is not None and not one.autocommit) for one in those):
            return True
        connection = connections[router.db_for_write(Conversation)]
        return connection.vendor == "sqlite" and (is_change or connection.is_in_memory_db())  # type: ignore[attr-defined]
