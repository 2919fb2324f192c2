"""Windows for stores that do not apply them themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage
from chatmemory.core.stores import ChatMemoryStore, WindowedChatMemoryStore
from chatmemory.core.tokens import stored_count
from chatmemory.core.window import Window

__all__ = ["LockedStore"]

# A memory object is often built anew for each request, so the lock belongs to the memory it stands for. A fixed
# number of locks, picked by hash, needs no bookkeeping; two memories that share one only wait for each other.
_LOCKS = [threading.RLock() for _ in range(256)]


class LockedStore(WindowedChatMemoryStore):
    """A plain store with a window and, for changes of each memory, a lock within this process.

    A store that applies the window itself is not wrapped: its database makes writers wait, and with a second lock here
    there could be deadlocks that the database cannot detect.
    """

    def __init__(self, store: ChatMemoryStore) -> None:
        self._store = store

    def get_window(self, memory_id: Any, window: Window) -> list[ChatMessage]:
        retained = Retained.fit(_stored(self._store.get_messages(memory_id), window), window)
        return _messages(retained.entries())

    def add_to_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        with self._lock(memory_id):
            retained = Retained.fit(_stored(self._store.get_messages(memory_id), window), window)
            for message in messages:
                retained.add(Entry(message, window.cost(message)))
            if retained.added:
                self._store.update_messages(memory_id, _messages(retained.entries()))

    def set_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        retained = Retained.fit([Entry(message, window.cost(message)) for message in messages], window)
        with self._lock(memory_id):
            self._store.update_messages(memory_id, _messages(retained.entries()))

    def delete_messages(self, memory_id: Any) -> None:
        with self._lock(memory_id):
            self._store.delete_messages(memory_id)

    def _lock(self, memory_id: Any) -> AbstractContextManager[Any]:
        return _LOCKS[hash((id(self._store), memory_id)) % len(_LOCKS)]


def _stored(messages: Iterable[ChatMessage], window: Window) -> list[Entry]:
    if window.estimator is None:
        return [Entry(message, 1) for message in messages]
    return [Entry(message, stored_count(message, window.estimator)) for message in messages]


def _messages(entries: Iterable[Entry]) -> list[ChatMessage]:
    return [entry.message for entry in entries]
