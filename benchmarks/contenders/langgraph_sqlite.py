"""LangGraph on SQLite."""

from __future__ import annotations

import sqlite3

from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.contenders.langgraph_checkpointer import LangGraphCheckpointer

__all__ = ["LangGraphSqlite"]


class LangGraphSqlite(LangGraphCheckpointer):
    """``SqliteSaver`` on a connection with the pragmas of all contenders."""

    engines = ("sqlite",)

    def fill(self, history: int) -> None:
        self.connection = sqlite3.connect(self.place.sqlite_file("langgraph"), check_same_thread=False)
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.compile(SqliteSaver(self.connection), history)

    def close(self) -> None:
        self.connection.close()
