"""What a memory asks of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from chatmemory.messages import ChatMessage
from chatmemory.window import Window

__all__ = ["ChatMemoryStore", "WindowedChatMemoryStore"]


class ChatMemoryStore(Protocol):
    """Anything with these three methods is a store.

    A memory never runs two changes of the same memory ID at once within a process. A store that several processes
    share loses what they add at the same moment, unless it is a :class:`WindowedChatMemoryStore`.
    """

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """All messages of the memory, in order; an empty list for an unknown one."""

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Replace all messages of the memory."""

    def delete_messages(self, memory_id: Any) -> None:
        """Forget the memory; nothing happens for an unknown one."""


class WindowedChatMemoryStore(ABC):
    """A store that applies the window itself, so that every change is atomic whoever else writes.

    It is a :class:`ChatMemoryStore` too. A memory calls the methods below in place of those three, without a lock.
    """

    @abstractmethod
    def delete_messages(self, memory_id: Any) -> None:
        """Forget the memory; nothing happens for an unknown one."""

    @abstractmethod
    def get_window(self, memory_id: Any, window: Window) -> list[ChatMessage]:
        """The messages that fit ``window``; nothing is written."""

    @abstractmethod
    def add_to_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Add ``messages`` one after the other, as one change."""

    @abstractmethod
    def set_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Make ``messages`` the memory, and evict what does not fit."""
