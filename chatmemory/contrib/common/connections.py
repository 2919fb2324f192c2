"""Database connections in the threads of other libraries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

__all__ = ["left_as_found"]


@contextmanager
def left_as_found(database: str) -> Iterator[None]:
    """Close the connection to ``database`` afterwards if it was not open before.

    Some frameworks run steps in threads of their own, in sync code too. These threads end with the run, and
    nothing else would close their connections.
    """
    connection = connections[database]
    was_open = connection.connection is not None or threading.current_thread() is threading.main_thread()
    try:
        yield
    finally:
        if not was_open:
            connection.close()
