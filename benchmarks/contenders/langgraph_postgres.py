"""LangGraph on PostgreSQL."""

from __future__ import annotations

from langgraph.checkpoint.postgres import PostgresSaver

from benchmarks.contenders.langgraph_checkpointer import LangGraphCheckpointer

__all__ = ["LangGraphPostgres"]


class LangGraphPostgres(LangGraphCheckpointer):
    """``PostgresSaver`` on a connection of its own making: psycopg 3, prepared from the first time on."""

    engines = ("postgres",)

    def fill(self, history: int) -> None:
        self.context = PostgresSaver.from_conn_string(self.place.postgres_url())
        saver = self.context.__enter__()
        saver.setup()
        self.compile(saver, history)

    def close(self) -> None:
        self.context.__exit__(None, None, None)
