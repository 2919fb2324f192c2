"""The thread in which async code reaches the database outside of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakSet

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.core.asynchronous import ThreadNeeds
from chatmemory.database.connections import beside_callers_transaction, close_all
from chatmemory.models import Conversation

T = TypeVar("T")


class ConnectionNeeds(ThreadNeeds):
    """The needs of connections. Those of a thread of its own are closed, or back in their pool, when the work is done.

    ``CONN_MAX_AGE`` keeps none of them: each of the threads would have one, alive or dead, for as long as the process.

    Work stays in the thread of its caller, or in the one that tasks without such a thread share,

    - while a transaction is open there, which somebody began there to change several things at once;
    - if it changes a memory on SQLite, where all changes wait for one file, so that more threads gain nothing;
    - if the database is SQLite's in memory, for that is another one in each thread.
    """

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[object, WeakSet[BaseDatabaseWrapper]] = WeakKeyDictionary()
        """The connections of each thread that work came to, which stay the same objects, and end with it."""

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

    def _see(self, thread: object) -> Iterable[BaseDatabaseWrapper]:
        here = self._seen[thread] = WeakSet(connections.all())
        return here

    def _stays(self, those: Iterable[BaseDatabaseWrapper], *, is_change: bool) -> bool:
        # Attributes only: the connection of another thread may be looked at, not used.
        if any(one.in_atomic_block or (one.connection is not None and not one.autocommit) for one in those):
            return True
        connection = connections[router.db_for_write(Conversation)]
        return connection.vendor == "sqlite" and (is_change or connection.is_in_memory_db())  # type: ignore[attr-defined]
