"""Django's backend, which opens no server-side cursor, and where names are kept finds no conversation by a name alone.

Behind a pooler in transaction mode the statements of one cursor reach several sessions, and forked processes give their
cursors equal names: one would read the rows of another.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.backends.postgresql import base

from tests.support.statements_by_name import refuse_by_name

__all__ = ["DatabaseWrapper", "ServerSideCursorError"]


class ServerSideCursorError(AssertionError):
    """A server-side cursor was to be opened."""


class DatabaseWrapper(base.DatabaseWrapper):
    """Connections of the tests, and of the programs that tests start."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "chatmemory.contrib.citus" in settings.INSTALLED_APPS:
            self.execute_wrappers.append(refuse_by_name)

    def create_cursor(self, name: str | None = None) -> Any:
        if name is not None:
            raise ServerSideCursorError(
                "A server-side cursor was to be opened, perhaps by iterator(); read in pages by key instead: "
                "chatmemory/database/batches.py"
            )
        return super().create_cursor(name)
