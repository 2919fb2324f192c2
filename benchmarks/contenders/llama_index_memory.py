"""``Memory`` of LlamaIndex."""

from __future__ import annotations

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

from benchmarks.contenders.base import AsyncContender
from benchmarks.contenders.sqlalchemy_engines import async_engine
from benchmarks.texts import PER_MESSAGE, count_tokens, message_text, token_counts

__all__ = ["LlamaIndexMemory"]

_MESSAGES_AT_ONCE = 1_000


class LlamaIndexMemory(AsyncContender):
    """``Memory`` on aiosqlite or asyncpg.

    All of the limit is for the chat history, as with the others. What it archives when that is full is its default,
    70 %, so its window is half full on average.
    """

    windows = ("tokens",)

    async def fill(self, history: int) -> None:
        self.engine = async_engine(self.place, "llama-index")
        self.memory = Memory.from_defaults(
            session_id="1",
            token_limit=self.window.limit,
            chat_history_token_ratio=1.0,
            tokenizer_fn=lambda text: range(count_tokens(text) + PER_MESSAGE),  # type: ignore[arg-type,return-value]
            async_engine=self.engine,
        )
        evicted = len(self.window.evicted_by([tokens + PER_MESSAGE for tokens in token_counts(history)]))
        await self._add(range(evicted), MessageStatus.ARCHIVED)
        await self._add(range(evicted, history), MessageStatus.ACTIVE)

    async def _add(self, positions: range, status: MessageStatus) -> None:
        for start in range(0, len(positions), _MESSAGES_AT_ONCE):
            messages = [
                ChatMessage(role="assistant" if position % 2 else "user", content=message_text(position))
                for position in positions[start : start + _MESSAGES_AT_ONCE]
            ]
            await self.memory.sql_store.add_messages(self.memory.session_id, messages, status=status)

    async def turn(self, user_text: str, ai_text: str) -> list[ChatMessage]:
        await self.memory.aput(ChatMessage(role="user", content=user_text))
        await self.memory.aput(ChatMessage(role="assistant", content=ai_text))
        return await self.memory.aget()

    def texts(self, window: list[ChatMessage]) -> list[str]:
        return [str(message.content) for message in window]

    async def close(self) -> None:
        await self.engine.dispose()
