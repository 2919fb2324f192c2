"""What can go wrong at a point: the database refuses, its answer is lost, the connection is cut, others collide."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["COLLISION", "FAULTS", "KILLS", "Pass"]

Pass = Callable[[], Any]
"""Passes the point."""


def _refuse(go: Pass) -> Any:
    """Fail before the statement is executed."""
    _spoil()
    raise _operational("injected before")


def _lose(go: Pass) -> Any:
    """Fail after the statement was executed."""
    go()
    _spoil()
    raise _operational("injected after")


def _cut_before(go: Pass) -> Any:
    _cut()
    return go()


def _cut_after(go: Pass) -> Any:
    from django.db import connection

    go()
    _cut()
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _collide(go: Pass) -> Any:
    """Roll back, as a database does at a deadlock."""
    from django.db import connection

    if connection.vendor != "sqlite":
        connection.connection.rollback()
    cause = _COLLISIONS[connection.vendor]()
    raise _operational(*cause.args) from cause


def _kill_before(go: Pass) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_after(go: Pass) -> Any:
    go()
    os.kill(os.getpid(), signal.SIGKILL)


COLLISION = "collision"

FAULTS: dict[str, Callable[[Pass], Any]] = {
    "error before": _refuse,
    "error after": _lose,
    "cut before": _cut_before,
    "cut after": _cut_after,
    COLLISION: _collide,
}
"""What the process survives."""

KILLS: dict[str, Callable[[Pass], Any]] = {"killed before": _kill_before, "killed after": _kill_after}
"""What it does not survive."""


def _operational(*what: Any) -> Exception:
    from django.db import OperationalError

    return OperationalError(*what)


def _spoil() -> None:
    """Leave the transaction in the state after a failed statement."""
    from django.db import connection

    raw: Any = connection.connection
    if connection.vendor == "postgresql" and connection.in_atomic_block:
        with suppress(Exception), raw.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
    elif connection.vendor == "sqlite" and raw.in_transaction and not connection.in_atomic_block:
        raw.rollback()  # a BEGIN that failed began nothing


def _cut() -> None:
    """Shut down the socket of the driver; for SQLite, which has none, roll back and raise the error of a disk."""
    from django.db import connection

    raw: Any = connection.connection
    if connection.vendor == "sqlite":
        raw.rollback()
        raise _operational("disk I/O error")
    number = raw.pgconn.socket if connection.vendor == "postgresql" else raw.fileno()
    with socket.socket(fileno=os.dup(number)) as line:
        line.shutdown(socket.SHUT_RDWR)


def _of_postgres() -> Exception:
    from psycopg.errors import SerializationFailure

    return SerializationFailure("injected collision")


def _of_sqlite() -> Exception:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


_COLLISIONS: dict[str, Callable[[], Exception]] = {
    "postgresql": _of_postgres,
    "mysql": lambda: Exception(1213, "injected deadlock"),
    "sqlite": _of_sqlite,
}
