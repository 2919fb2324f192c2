"""``SQLAlchemySession`` of OpenAI's Agents SDK."""

from __future__ import annotations

from agents.extensions.memory import SQLAlchemySession

from benchmarks.contenders.openai_agents import OpenAiAgentsSession
from benchmarks.contenders.sqlalchemy_engines import async_engine

__all__ = ["OpenAiAgentsSqlAlchemySession"]


class OpenAiAgentsSqlAlchemySession(OpenAiAgentsSession):
    """``SQLAlchemySession`` on aiosqlite or asyncpg."""

    async def fill(self, history: int) -> None:
        self.engine = async_engine(self.place, "openai-agents-sqlalchemy")
        self.session = SQLAlchemySession("1", engine=self.engine, create_tables=True)
        await self.add_history(history)

    async def close(self) -> None:
        await self.engine.dispose()
