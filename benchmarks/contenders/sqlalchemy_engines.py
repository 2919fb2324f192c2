"""Engines for peers that take one: each SQLite connection has the pragmas of all contenders."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.places import Place

__all__ = ["async_engine", "sync_engine"]


def sync_engine(place: Place, name: str) -> Engine:
    """Return an engine on psycopg 3 or ``sqlite3``."""
    if place.engine == "postgres":
        return create_engine(place.postgres_url("psycopg"))
    engine = create_engine(f"sqlite:///{place.sqlite_file(name)}")
    event.listen(engine, "connect", _set_pragmas)
    return engine


def async_engine(place: Place, name: str) -> AsyncEngine:
    """Return an engine on asyncpg or aiosqlite."""
    if place.engine == "postgres":
        return create_async_engine(place.postgres_url("asyncpg"))
    engine = create_async_engine(f"sqlite+aiosqlite:///{place.sqlite_file(name)}")
    event.listen(engine.sync_engine, "connect", _set_pragmas)
    return engine


def _set_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = NORMAL")  # the file is in WAL mode
    cursor.close()
