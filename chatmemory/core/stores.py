"""The protocol of stores, and two stores that keep memories in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from chatmemory.core.arguments import require_list
from chatmemory.core.messages import ChatMessage
from chatmemory.core.window import Window


class ChatMemoryStore(Protocol):
    """A store: any object with these three methods.

    A memory never runs two changes of the same memory ID at once within a process. A store that several processes
    share loses what they add at the same moment, unless it is a :class:`WindowedChatMemoryStore`.
    """

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """Return all messages of the memory, in order; an empty list for an unknown one."""

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Replace all messages of the memory."""

    def delete_messages(self, memory_id: Any) -> None:
        """Delete the memory; do nothing for an unknown one."""


class WindowedChatMemoryStore(ABC):
    """A store that applies the window itself, so that every change is atomic whoever else writes.

    It is a :class:`ChatMemoryStore` too. A memory calls the methods below in place of those three, without a lock.
    """

    @abstractmethod
    def delete_messages(self, memory_id: Any) -> None:
        """Delete the memory; do nothing for an unknown one."""

    @abstractmethod
    def get_window(self, memory_id: Any, window: Window) -> list[ChatMessage]:
        """Return the messages that fit ``window``, and write nothing."""

    @abstractmethod
    def add_to_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Add ``messages`` one after the other, as one change."""

    @abstractmethod
    def set_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Replace the memory by ``messages``, and evict what does not fit."""


class InMemoryChatMemoryStore:
    """A store of any number of memories. IDs are compared as Python compares dict keys: 1 and "1" differ."""

    def __init__(self) -> None:
        self._messages: dict[Any, tuple[ChatMessage, ...]] = {}

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """Return a new list with the messages of the memory."""
        return list(self._messages.get(_not_null(memory_id), ()))

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Replace the messages of the memory by a copy of ``messages``."""
        self._messages[_not_null(memory_id)] = _checked(memory_id, messages)

    def delete_messages(self, memory_id: Any) -> None:
        """Delete the memory."""
        self._messages.pop(_not_null(memory_id), None)


class SingleSlotChatMemoryStore:
    """A store of one memory: the default of every memory that gets no other."""

    def __init__(self, memory_id: Any) -> None:
        self._memory_id = memory_id
        self._messages: tuple[ChatMessage, ...] = ()

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """Return a new list with the messages.

        Raises:
            ValueError: ``memory_id`` is another memory's.
        """
        self._check(memory_id)
        return list(self._messages)

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Replace the messages by a copy of ``messages``.

        Raises:
            ValueError: ``memory_id`` is another memory's.
        """
        self._check(memory_id)
        self._messages = _checked(memory_id, messages)

    def delete_messages(self, memory_id: Any) -> None:
        """Delete the messages.

        Raises:
            ValueError: ``memory_id`` is another memory's.
        """
        self._check(memory_id)
        self._messages = ()

    def _check(self, memory_id: Any) -> None:
        if memory_id != self._memory_id:
            asked = "null" if memory_id is None else memory_id
            raise ValueError(
                f"This chat memory has id: {self._memory_id} "
                f"but an operation has been requested on a memory with id: {asked}"
            )


def _not_null(memory_id: Any) -> Any:
    if memory_id is None:
        raise ValueError("memory_id cannot be null")
    return memory_id


def _checked(memory_id: Any, messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    if messages is None:
        raise TypeError(f"messages of memory {memory_id!r} cannot be null; an empty list clears it")
    return tuple(require_list(messages, "messages"))
