"""The databases of the scenarios that need one server, and how to start them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.soak.crew import configure
from benchmarks.soak.mariadb import MariaDbServer
from benchmarks.soak.postgres import PostgresServer

__all__ = ["BINDING", "ENGINES", "SERVERS", "Server", "engine"]

Server = PostgresServer | MariaDbServer

SERVERS = {"postgres": "PostgreSQL", "mariadb": "MariaDB"}
"""Names of the engines that are servers, for people."""

BINDING = "postgres-binding"
"""The name of the engine whose server, and not the driver, puts the parameters into statements."""

ENGINES = {
    "sqlite": "SQLite, Django's defaults",
    "sqlite-wal": "SQLite, WAL",
    **SERVERS,
    BINDING: "PostgreSQL, server_side_binding",
}
"""All engines."""

# SQLite as Django has it without options, and as docs/databases.md recommends it.
_SQLITE: dict[str, dict[str, Any]] = {
    "sqlite": {},
    "sqlite-wal": {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"},
}


@contextmanager
def engine(name: str, folder: Path) -> Iterator[Server | None]:
    """Start what is called ``name``, and make it this process' default database; yield its server if it has one."""
    place = folder / "database"
    place.mkdir()
    if name in _SQLITE:
        file = place / "database.sqlite3"
        configure({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": file, "OPTIONS": _SQLITE[name]}})
        yield None
        return
    with MariaDbServer(place) if name == "mariadb" else PostgresServer(place) as server:
        options = {"OPTIONS": {"server_side_binding": True}} if name == BINDING else {}
        configure({"default": server.database(**options)})
        try:
            yield server
        finally:
            _disconnect()


def _disconnect() -> None:
    from django.db import connections

    connections.close_all()
