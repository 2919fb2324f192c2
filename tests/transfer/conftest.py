"""The databases of other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections


@pytest.fixture
def drop() -> Iterator[Any]:
    """Names tables that are gone after the test."""
    names: list[str] = []
    yield names.extend
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"DROP TABLE IF EXISTS {connection.ops.quote_name(name)}")


@pytest.fixture
def connect() -> Iterator[Callable[[Path], str]]:
    """Makes a SQLite file a database of the project, and returns its alias."""
    with ExitStack() as to_close:

        def connect(file: Path) -> str:
            connections.databases["source"] = connections.databases["other"] | {"NAME": str(file)}
            connections["source"].connect()  # Django's tests let no other alias connect by itself
            to_close.callback(lambda: (connections["source"].close(), connections.__delitem__("source")))
            to_close.callback(connections.databases.pop, "source", None)
            return "source"

        yield connect
