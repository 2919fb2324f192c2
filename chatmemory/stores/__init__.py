"""Where memories are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatmemory.stores.base import ChatMemoryStore, WindowedChatMemoryStore
from chatmemory.stores.in_memory import InMemoryChatMemoryStore, SingleSlotChatMemoryStore

if TYPE_CHECKING:
    from chatmemory.stores.orm import DjangoChatMemoryStore

__all__ = [
    "ChatMemoryStore",
    "DjangoChatMemoryStore",
    "InMemoryChatMemoryStore",
    "SingleSlotChatMemoryStore",
    "WindowedChatMemoryStore",
]


def __getattr__(name: str) -> Any:
    # The store on the ORM needs models, and the core must be importable without Django.
    if name == "DjangoChatMemoryStore":
        from chatmemory.stores.orm import DjangoChatMemoryStore

        return DjangoChatMemoryStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
