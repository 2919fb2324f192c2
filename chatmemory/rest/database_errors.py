"""What an error of the database means: it is away, or migrations are missing, or there is a bug.

Each engine has exceptions and codes of its own. For SQLite and MariaDB a missing column is an ``OperationalError``, as
is a lost connection.
"""

from __future__ import annotations

import re
import sqlite3

from django.db import DatabaseError, InterfaceError, OperationalError

__all__ = ["is_unavailable", "lacks_migration"]

_SQLITE_MISSING = re.compile(r"no such (table|column)|has no column named")
_SQLSTATES_OF_MISSING = {"42P01", "42703"}
_MYSQL_CODES_OF_MISSING = {1054, 1109, 1146}

# A right or a routine is missing, or a column that this app does not know wants a value.
_MYSQL_CODES_OF_DEFECTS = {1142, 1143, 1305, 1364, 1370}

# Busy, locked, out of memory, interrupted, I/O error, disk full, file not opened, locking protocol.
_SQLITE_CODES_OF_TROUBLE = {5, 6, 7, 9, 10, 13, 14, 15}


def lacks_migration(error: DatabaseError) -> bool:
    """Return whether a table or a column is missing."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return bool(_SQLITE_MISSING.search(str(cause)))
    if (getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)) in _SQLSTATES_OF_MISSING:
        return True
    return bool(error.args) and error.args[0] in _MYSQL_CODES_OF_MISSING


def is_unavailable(error: Exception) -> bool:
    """Return whether the database is away or busy, so that a retry may help."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return isinstance(error, OperationalError) and cause.sqlite_errorcode & 0xFF in _SQLITE_CODES_OF_TROUBLE
    return not (error.args and error.args[0] in _MYSQL_CODES_OF_DEFECTS | _MYSQL_CODES_OF_MISSING)
