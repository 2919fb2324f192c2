"""The stores of memories: in the database, and in this process."""

from chatmemory.core.stores import (
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    SingleSlotChatMemoryStore,
    WindowedChatMemoryStore,
)
from chatmemory.database.django_store import DjangoChatMemoryStore

__all__ = [
    "ChatMemoryStore",
    "DjangoChatMemoryStore",
    "InMemoryChatMemoryStore",
    "SingleSlotChatMemoryStore",
    "WindowedChatMemoryStore",
]
