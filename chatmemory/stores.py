"""The stores of memories: on the ORM, and in the process."""

from chatmemory.core.stores import (
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    SingleSlotChatMemoryStore,
    WindowedChatMemoryStore,
)
from chatmemory.database.store import DjangoChatMemoryStore

__all__ = [
    "ChatMemoryStore",
    "DjangoChatMemoryStore",
    "InMemoryChatMemoryStore",
    "SingleSlotChatMemoryStore",
    "WindowedChatMemoryStore",
]
