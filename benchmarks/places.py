"""The place of a cell's data: a folder and a database of its own, removed afterwards."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["Place", "mariadb_parameters", "new_place", "postgres_parameters"]


def postgres_parameters(database: str = "postgres") -> dict[str, str]:
    """Return libpq's address of the server; the usual environment variables apply."""
    return {
        "host": os.environ.get("PGHOST", "127.0.0.1"),
        "port": os.environ.get("PGPORT", "5432"),
        "user": os.environ.get("PGUSER", "root"),
        "password": os.environ.get("PGPASSWORD", ""),
        "dbname": database,
    }


def mariadb_parameters() -> dict[str, str]:
    """Return MariaDB's address, as ``mysqlclient`` takes it."""
    return {
        "host": os.environ.get("MYSQL_HOST", "127.0.0.1"),
        "user": os.environ.get("MYSQL_USER", "root"),
        "password": os.environ.get("MYSQL_PASSWORD", ""),
    }


@dataclass(frozen=True)
class Place:
    """The place of the data of one cell's contenders."""

    engine: str
    """``sqlite``, ``postgres`` or ``mariadb``."""

    folder: Path
    """A folder for SQLite files; empty at first."""

    database: str
    """The name of a new database: with SQLite the path of Django's file."""

    def sqlite_file(self, name: str) -> Path:
        """Return a contender's own file, already in WAL mode, which the file keeps."""
        path = self.folder / f"{name}.sqlite3"
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        return path

    def postgres_url(self, driver: str = "") -> str:
        """Return the database's address for SQLAlchemy (with a driver such as ``asyncpg``) or libpq."""
        given = postgres_parameters(self.database)
        sign_in = quote(given["user"], "") + (f":{quote(given['password'], '')}" if given["password"] else "")
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://{sign_in}@{given['host']}:{given['port']}/{self.database}"


@contextmanager
def new_place(engine: str) -> Iterator[Place]:
    """Yield a new place, to which Django's default connection is moved, with all tables of the project's apps."""
    from django.core.management import call_command
    from django.db import connection

    with tempfile.TemporaryDirectory(prefix="chatmemory-benchmark-") as folder:
        name = f"chatmemory_benchmark_{os.getpid()}_{Path(folder).name[-8:].lower()}"  # there may be several
        database = str(Path(folder) / "django.sqlite3") if engine == "sqlite" else name
        before = connection.settings_dict["NAME"]
        with _database(engine, name):
            connection.close()
            connection.settings_dict["NAME"] = database
            try:
                call_command("migrate", run_syncdb=True, verbosity=0)
                yield Place(engine=engine, folder=Path(folder), database=database)
            finally:
                connection.close()
                connection.settings_dict["NAME"] = before


@contextmanager
def _database(engine: str, name: str) -> Iterator[None]:
    if engine == "sqlite":
        yield
        return
    create, drop = f"CREATE DATABASE {name}", f"DROP DATABASE IF EXISTS {name}"
    if engine == "postgres":
        drop += " WITH (FORCE)"
    else:
        create += " CHARACTER SET utf8mb4"
    _on_server(engine, drop, create)
    try:
        yield
    finally:
        _on_server(engine, drop)


def _on_server(engine: str, *statements: str) -> None:
    server: Any
    if engine == "postgres":
        import psycopg

        server = psycopg.connect(**postgres_parameters(), autocommit=True)  # type: ignore[arg-type]
    else:
        import MySQLdb

        server = MySQLdb.connect(**mariadb_parameters())
    cursor = server.cursor()
    for statement in statements:
        cursor.execute(statement)
    server.close()
