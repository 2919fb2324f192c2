"""``SQLChatMessageHistory`` of langchain-community."""

from __future__ import annotations

from langchain_community.chat_message_histories import SQLChatMessageHistory

from benchmarks.contenders.langchain_history import LangChainHistory
from benchmarks.contenders.sqlalchemy_engines import sync_engine

__all__ = ["LangChainSql"]


class LangChainSql(LangChainHistory):
    """``SQLChatMessageHistory`` on ``sqlite3`` or psycopg 3. Its table has no index on the session."""

    def fill(self, history: int) -> None:
        self.engine = sync_engine(self.place, "langchain")
        self.history = SQLChatMessageHistory("1", connection=self.engine)
        self.add_history(history)

    def close(self) -> None:
        self.engine.dispose()
