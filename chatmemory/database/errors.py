"""The meaning of a database's error, by the codes of its engine.

Each engine has exceptions and codes of its own. For SQLite and MariaDB a missing column is an ``OperationalError``, as
is a lost connection.
"""

from __future__ import annotations

import re
import sqlite3

from django.db import DatabaseError, InterfaceError, InternalError, OperationalError

__all__ = ["has_collided", "is_lock_timeout", "is_unavailable", "lacks_migration"]

# Busy and locked.
_SQLITE_LOCKED = {5, 6}

# Serialization failure and deadlock on PostgreSQL. On MariaDB a deadlock (also a Galera cluster's refusal to certify,
# which may hit even a read) and a row that changed since it was read (innodb_snapshot_isolation). Each means that
# nothing of the transaction was done.
_SQLSTATES_OF_COLLISIONS = {"40001", "40P01"}
_MYSQL_CODES_OF_COLLISIONS = {1020, 1213}

# A lock that was not available in time.
_SQLSTATE_OF_LOCK_TIMEOUT = "55P03"
_MYSQL_CODE_OF_LOCK_TIMEOUT = 1205

# Citus raises it, even at a commit, when it has lost a node.
_SQLSTATE_OF_INTERNAL_ERRORS = "XX000"

_SQLITE_MISSING = re.compile(r"no such (table|column)|has no column named")
_SQLSTATES_OF_MISSING = {"42P01", "42703"}
_MYSQL_CODES_OF_MISSING = {1054, 1109, 1146}

# A right or a routine is missing, or a column that this app does not know wants a value.
_MYSQL_CODES_OF_DEFECTS = {1142, 1143, 1305, 1364, 1370}

# Out of memory, interrupted, I/O error, disk full, file not opened, locking protocol.
_SQLITE_CODES_OF_TROUBLE = {*_SQLITE_LOCKED, 7, 9, 10, 13, 14, 15}


def has_collided(error: OperationalError) -> bool:
    """Return whether the database rolled a transaction back because it collided with another."""
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
    """Return whether the database, or a node of it, is away or busy, so that a retry may help."""
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
    """Return the primary code of an error of SQLite; 0 if it has none."""
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF


def _mysql_code(error: Exception) -> object:
    """Return the code of an error of MariaDB; of other engines something that is no number."""
    return error.args[0] if error.args else None
