"""``PostgresChatMessageHistory`` of langchain-postgres."""

from __future__ import annotations

from uuid import UUID

import psycopg
from langchain_postgres import PostgresChatMessageHistory

from benchmarks.contenders.langchain_history import LangChainHistory

__all__ = ["LangChainPostgres"]


class LangChainPostgres(LangChainHistory):
    """``PostgresChatMessageHistory`` on psycopg 3."""

    engines = ("postgres",)

    def fill(self, history: int) -> None:
        self.connection = psycopg.connect(self.place.postgres_url())
        PostgresChatMessageHistory.create_tables(self.connection, "langchain_postgres_history")
        self.history = PostgresChatMessageHistory(
            "langchain_postgres_history", str(UUID(int=1)), sync_connection=self.connection
        )
        self.add_history(history)

    def close(self) -> None:
        self.connection.close()
