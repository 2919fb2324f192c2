"""The floor on SQLite."""

from __future__ import annotations

import sqlite3
from typing import Any

from benchmarks.contenders.floor import Floor

__all__ = ["SqliteFloor"]


class SqliteFloor(Floor):
    """The floor on the module ``sqlite3``, which caches compiled statements by itself."""

    engines = ("sqlite",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given, mark="?", key="integer PRIMARY KEY")

    def fill(self, history: int) -> None:
        self.connection = sqlite3.connect(self.place.sqlite_file("floor"), isolation_level=None)
        execute = self.connection.execute
        execute("PRAGMA synchronous = NORMAL")
        for statement in self.tables:
            execute(statement)
        execute("BEGIN")
        self.connection.executemany(self.insert, self.rows(history))
        execute(self.counters(history))
        execute("COMMIT")
        execute("ANALYZE")

    def turn(self, user_text: str, ai_text: str) -> list[Any]:
        self._add("USER", user_text)
        self._add("AI", ai_text)
        return self.connection.execute(self.read).fetchall()

    def _add(self, type: str, text: str) -> None:
        execute, cost = self.connection.execute, self.costs[text]
        execute("BEGIN IMMEDIATE")
        version, said = execute(self.lock, (cost,)).fetchone()
        execute(self.insert, (1, version, type, text, said - cost, None))
        if said > self.window.limit:
            execute(self.evict, (version, said - self.window.limit))
        execute("COMMIT")

    def close(self) -> None:
        self.connection.close()
