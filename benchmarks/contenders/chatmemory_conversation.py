"""chatmemory, as an app uses it: ``conversation.memory``."""

from __future__ import annotations

from benchmarks.contenders.base import SyncContender
from benchmarks.filling import new_conversation
from chatmemory import AiMessage, ChatMemory, ChatMessage, UserMessage

__all__ = ["ChatMemoryConversation"]


class ChatMemoryConversation(SyncContender):
    """``conversation.memory`` of an instance kept between turns; every change reads its row anew anyway."""

    largest_history = 1_000_000

    def fill(self, history: int) -> None:
        self.memory: ChatMemory = new_conversation(self.window, history).memory

    def turn(self, user_text: str, ai_text: str) -> list[ChatMessage]:
        self.memory.add(UserMessage(user_text))
        self.memory.add(AiMessage(ai_text))
        return self.memory.messages()

    def texts(self, window: list[ChatMessage]) -> list[str]:
        return [
            message.single_text() if isinstance(message, UserMessage) else str(getattr(message, "text", None))
            for message in window
        ]

    def close(self) -> None:
        pass  # the connection is Django's
