"""chatmemory's window of tokens, in memory."""

from __future__ import annotations

from typing import Any

from benchmarks.prompt_cache.contenders.base import MessageByMessage, Request
from benchmarks.prompt_cache.conversations import Conversation
from benchmarks.prompt_cache.counting import ESTIMATOR
from chatmemory import ChatMessage, TokenWindowChatMemory

__all__ = ["ChatMemoryWindow"]


class ChatMemoryWindow(MessageByMessage):
    """``TokenWindowChatMemory``; what is evicted when is the same in a database."""

    def __init__(self, conversation: Conversation, limit: int, **settings: Any) -> None:
        super().__init__(conversation, limit)
        self._memory = TokenWindowChatMemory(max_tokens=limit, token_count_estimator=ESTIMATOR, **settings)
        self._memory.add(self.system)

    def add(self, message: ChatMessage) -> None:
        self._memory.add(message)

    def window(self) -> Request:
        return self._memory.messages()
