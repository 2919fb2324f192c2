"""The floor on PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg

from benchmarks.contenders.floor import Floor

__all__ = ["PostgresFloor"]


class PostgresFloor(Floor):
    """The floor on psycopg 3, every statement prepared."""

    engines = ("postgres",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given, mark="%s", key="bigserial PRIMARY KEY")

    def fill(self, history: int) -> None:
        self.connection: Any = psycopg.connect(self.place.postgres_url(), autocommit=True, prepare_threshold=0)
        for statement in self.tables:
            self.connection.execute(statement)
        with self.connection.cursor() as cursor, cursor.copy(f"COPY floor_message ({self.columns}) FROM STDIN") as copy:
            for row in self.rows(history):
                copy.write_row(row)
        self.connection.execute(self.counters(history))

    def turn(self, user_text: str, ai_text: str) -> list[Any]:
        self._add("USER", user_text)
        self._add("AI", ai_text)
        return self.connection.execute(self.read).fetchall()

    def _add(self, type: str, text: str) -> None:
        cost = self.costs[text]
        with self.connection.transaction(), self.connection.cursor() as cursor:
            version, said = cursor.execute(self.lock, (cost,)).fetchone()
            cursor.execute(self.insert, (1, version, type, text, said - cost, None))
            if said > self.window.limit:
                cursor.execute(self.evict, (version, said - self.window.limit))

    def close(self) -> None:
        self.connection.close()
