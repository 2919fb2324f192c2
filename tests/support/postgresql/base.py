"""Django's backend, which opens no server-side cursor, and where names are kept finds no conversation by a name alone.

Behind a pooler in transaction mode the statements of one cursor reach several sessions, and forked processes give their
cursors equal names: one would read the rows of another.

It sends no number as a type that does not hold it, either. With ``server_side_binding`` psycopg drops the bits that are
too many, and without it the number stands in the text of the statement: a test would find only the one or the other.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.backends.postgresql import base

from tests.support.statements_by_name import refuse_by_name

__all__ = ["DatabaseWrapper", "NumberTooLargeError", "ServerSideCursorError"]


class ServerSideCursorError(AssertionError):
    """A server-side cursor was to be opened."""


class NumberTooLargeError(AssertionError):
    """A number was to be sent as a type that does not hold it."""


class DatabaseOperations(base.DatabaseOperations):
    """What Django knows of PostgreSQL."""

    def adapt_integerfield_value(self, value: Any, internal_type: str) -> Any:
        _least, most = self.integer_field_range(internal_type)
        if isinstance(value, int) and not -most - 1 <= value <= most:
            raise NumberTooLargeError(f"{value} as {internal_type}; give it as Value({value}, BigIntegerField())")
        return super().adapt_integerfield_value(value, internal_type)


class DatabaseWrapper(base.DatabaseWrapper):
    """Connections of the tests, and of the programs that tests start."""

    ops_class = DatabaseOperations

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "chatmemory.contrib.citus" in settings.INSTALLED_APPS:
            self.execute_wrappers.append(refuse_by_name)

    def create_cursor(self, name: str | None = None) -> Any:
        if name is not None:
            raise ServerSideCursorError(
                "A server-side cursor was to be opened, perhaps by iterator(); read in pages by key instead: "
                "chatmemory/database/reading.py"
            )
        return super().create_cursor(name)
