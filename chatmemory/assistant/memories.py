"""The memories of one assistant, by what its callers name them with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from chatmemory.assistant.turns.local import LocalLease
from chatmemory.assistant.turns.opening import memory_of_row, open_lease
from chatmemory.core.memory import ChatMemory

__all__ = ["Memories", "MemoryProvider"]

MemoryProvider: TypeAlias = Callable[[Any], ChatMemory]
"""A function of a memory ID that returns its memory."""


class Memories:
    """The memories that an assistant was given, or makes by IDs; a ``Conversation`` has its own."""

    def __init__(self, given: ChatMemory | MemoryProvider | None, turn_timeout: float) -> None:
        """
        Args:
            given: one for all, a provider, or None if only conversations have memories.
            turn_timeout: seconds, as of the assistant.

        Raises:
            TypeError: ``given`` is something else.
        """
        if given is not None and not callable(given) and not isinstance(given, ChatMemory):
            raise TypeError(f"memory must be a ChatMemory or a callable, but is: {_kind_of(given)}")
        self._given = given
        self._turn_timeout = turn_timeout
        self._by_id: dict[Any, ChatMemory] = {}
        self._lock = threading.Lock()

    def of(self, memory_id: Any) -> ChatMemory:
        """Return the memory of an ID, or of a ``Conversation``.

        That of a provider is kept, unless it is in Django's database.

        Raises:
            ValueError: there is one memory for all, and it has another ID.
            TypeError: there is no memory for IDs, or what the provider returned is no memory.
        """
        if (own := memory_of_row(memory_id)) is not None:
            return own
        if self._given is None:
            raise TypeError(
                f"{memory_id!r:.100} is no Conversation. Give the conversation first, and the message after it: "
                'chat(conversation, "Hello"). To name conversations by IDs, make the assistant with memory=…, such as '
                "memory=lambda pk: Conversation.objects.get(pk=pk).memory"
            )
        if isinstance(self._given, ChatMemory):
            if memory_id != self._given.id:
                raise ValueError(
                    f"there is one memory for all, whose ID is {self._given.id!r}, but the ID given is {memory_id!r}; "
                    "for one memory per ID give a callable: memory=lambda memory_id: …"
                )
            return self._given
        with self._lock:
            if memory_id in self._by_id:
                return self._by_id[memory_id]
        memory = self._given(memory_id)
        if not isinstance(memory, ChatMemory):
            raise TypeError(f"the memory of {memory_id!r} must be a ChatMemory, but is: {_kind_of(memory)}")
        if not isinstance(open_lease(memory, self._turn_timeout), LocalLease):
            return memory
        with self._lock:
            return self._by_id.setdefault(memory_id, memory)

    def forget(self, memory_id: Any) -> None:
        """Drop the memory object of an ID."""
        with self._lock:
            self._by_id.pop(memory_id, None)


def _kind_of(value: Any) -> str:
    """Return the type of what is no memory, with a hint if it has one."""
    hint = "; pass conversation.memory" if isinstance(getattr(value, "memory", None), ChatMemory) else ""
    return f"{type(value).__name__}{hint}"
