"""``SQLiteSession`` of OpenAI's Agents SDK."""

from __future__ import annotations

from agents import SQLiteSession

from benchmarks.contenders.openai_agents import OpenAiAgentsSession

__all__ = ["OpenAiAgentsSqliteSession"]


class OpenAiAgentsSqliteSession(OpenAiAgentsSession):
    """``SQLiteSession``, which opens connections itself, one per thread of the pool: WAL, and synchronous FULL."""

    engines = ("sqlite",)

    async def fill(self, history: int) -> None:
        self.session: SQLiteSession = SQLiteSession("1", self.place.sqlite_file("openai-agents"))
        await self.add_history(history)

    async def close(self) -> None:
        self.session.close()
