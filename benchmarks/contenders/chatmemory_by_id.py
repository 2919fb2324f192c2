"""chatmemory without a model instance: LangChain4j's classes on the store of the ORM."""

from __future__ import annotations

from benchmarks.contenders.chatmemory_conversation import ChatMemoryConversation
from benchmarks.filling import new_conversation
from chatmemory import MessageWindowChatMemory, OpenAiTokenCountEstimator, TokenWindowChatMemory
from chatmemory.stores import DjangoChatMemoryStore

__all__ = ["ChatMemoryById"]


class ChatMemoryById(ChatMemoryConversation):
    """A memory that finds its conversation by the memory ID with every call."""

    largest_history = 100_000

    def fill(self, history: int) -> None:
        name = new_conversation(self.window, history).memory_id
        store = DjangoChatMemoryStore()
        if self.window.kind == "messages":
            self.memory = MessageWindowChatMemory(id=name, max_messages=self.window.limit, store=store)
        else:
            self.memory = TokenWindowChatMemory(
                id=name,
                max_tokens=self.window.limit,
                token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"),
                store=store,
            )
