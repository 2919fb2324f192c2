"""The common part of both sessions of OpenAI's Agents SDK."""

from __future__ import annotations

from typing import Any

from agents import SessionABC

from benchmarks.contenders.base import AsyncContender
from benchmarks.texts import PER_MESSAGE, count_tokens, message_text

__all__ = ["OpenAiAgentsSession"]

_ITEMS_AT_ONCE = 1_000


class OpenAiAgentsSession(AsyncContender):
    """A session. For messages the window is ``get_items(limit=…)``; for tokens all are read and the newest kept."""

    session: SessionABC

    async def add_history(self, history: int) -> None:
        """Add the first ``history`` messages, through the session."""
        for start in range(0, history, _ITEMS_AT_ONCE):
            await self.session.add_items(
                [
                    self.item("assistant" if position % 2 else "user", message_text(position))
                    for position in range(start, min(history, start + _ITEMS_AT_ONCE))
                ]
            )

    @staticmethod
    def item(role: str, text: str) -> Any:
        """Return a message as the SDK saves it."""
        return {"role": role, "content": text}

    async def turn(self, user_text: str, ai_text: str) -> list[Any]:
        await self.session.add_items([self.item("user", user_text)])
        await self.session.add_items([self.item("assistant", ai_text)])
        if self.window.kind == "messages":
            return list(await self.session.get_items(limit=self.window.limit))
        return self._newest_that_fit(list(await self.session.get_items()))

    def _newest_that_fit(self, items: list[Any]) -> list[Any]:
        left = self.window.limit
        for index in range(len(items) - 1, -1, -1):
            left -= count_tokens(items[index]["content"]) + PER_MESSAGE
            if left < 0:
                return items[index + 1 :]
        return items

    def texts(self, window: list[Any]) -> list[str]:
        return [item["content"] for item in window]
