"""The two window memories, as LangChain4j has them, but atomic."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from asgiref.sync import sync_to_async

from chatmemory.core.eviction import Entry
from chatmemory.core.messages import ChatMessage, require_messages
from chatmemory.core.stores import ChatMemoryStore, SingleSlotChatMemoryStore, WindowedChatMemoryStore
from chatmemory.core.tokens import TokenCountEstimator, stored_count
from chatmemory.core.window import Window, WindowKind, check_limit

__all__ = ["ChatMemory", "MessageWindowChatMemory", "TokenWindowChatMemory", "WindowChatMemory"]

# A memory object is often built anew for each request, so the lock belongs to the memory it stands for. A fixed
# number of locks, picked by hash, needs no bookkeeping; two memories that share one only wait for each other.
_LOCKS = [threading.RLock() for _ in range(256)]

_REQUIRED: Any = object()


class ChatMemory(ABC):
    """The messages that a model gets.

    Every method has a twin that begins with ``a``, for async code.
    """

    @property
    @abstractmethod
    def id(self) -> Any:
        """The memory ID."""

    @abstractmethod
    def add(self, *messages: ChatMessage) -> object:
        """Add messages, all or none, as if one after the other; evict what no longer fits.

        A subclass may return an account of the change, and so for :meth:`set` and :meth:`clear`.

        Raises:
            TypeError: one of them is no message.
        """

    @abstractmethod
    def set(self, messages: Iterable[ChatMessage]) -> object:
        """Replace everything by ``messages``; evict what does not fit.

        Raises:
            TypeError: one of them is no message.
        """

    @abstractmethod
    def messages(self) -> list[ChatMessage]:
        """The messages, in order; a new list that is yours."""

    @abstractmethod
    def clear(self) -> object:
        """Forget everything."""

    async def aadd(self, *messages: ChatMessage) -> object:
        """Async twin of :meth:`add`."""
        return await sync_to_async(self.add)(*messages)

    async def aset(self, messages: Iterable[ChatMessage]) -> object:
        """Async twin of :meth:`set`."""
        return await sync_to_async(self.set)(messages)

    async def amessages(self) -> list[ChatMessage]:
        """Async twin of :meth:`messages`."""
        return await sync_to_async(self.messages)()

    async def aclear(self) -> object:
        """Async twin of :meth:`clear`."""
        return await sync_to_async(self.clear)()


class WindowChatMemory(ChatMemory):
    """What both windows share: all but what a message costs."""

    _kind: WindowKind
    _limit_name: str

    def __init__(
        self,
        id: Any,
        limit: int | Callable[[Any], int],
        token_count_estimator: TokenCountEstimator | None,
        store: ChatMemoryStore | None,
        always_keep_system_message_first: bool,
    ) -> None:
        if id is None:
            raise ValueError("id cannot be null")
        hash(id)  # a TypeError now rather than at the first add
        if limit is _REQUIRED:
            raise ValueError(f"{self._limit_name}_provider cannot be null")
        self._id = id
        self._limit = limit
        self._estimator = token_count_estimator
        self.store: ChatMemoryStore | WindowedChatMemoryStore = (
            SingleSlotChatMemoryStore(id) if store is None else store
        )
        self._system_message_first = bool(always_keep_system_message_first)
        self.window()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self._id!r}, {self._limit_name}={self._limit!r})"

    @property
    def id(self) -> Any:
        return self._id

    def add(self, *messages: ChatMessage) -> None:
        added = require_messages(messages)
        if not added:
            return
        window = self.window()
        if isinstance(self.store, WindowedChatMemoryStore):
            self.store.add_to_window(self._id, added, window)
            return
        with self._lock():
            retained = window.fit(_stored(self.store.get_messages(self._id), window))
            for message in added:
                retained.add(Entry(message, window.cost(message)), system_message_first=self._system_message_first)
            if retained.added:
                self.store.update_messages(self._id, [entry.message for entry in retained.entries()])

    def set(self, messages: Iterable[ChatMessage]) -> None:
        given = require_messages(messages)
        window = self.window()
        if isinstance(self.store, WindowedChatMemoryStore):
            self.store.set_window(self._id, given, window)
            return
        entries = [Entry(message, window.cost(message)) for message in given]
        with self._lock():
            self.store.update_messages(self._id, [entry.message for entry in window.fit(entries).entries()])

    def messages(self) -> list[ChatMessage]:
        window = self.window()
        if isinstance(self.store, WindowedChatMemoryStore):
            return self.store.get_window(self._id, window)
        retained = window.fit(_stored(self.store.get_messages(self._id), window))
        return [entry.message for entry in retained.entries()]

    def clear(self) -> None:
        if isinstance(self.store, WindowedChatMemoryStore):
            # The database queues writers; a lock of ours beside its own could deadlock unseen.
            self.store.delete_messages(self._id)
            return
        with self._lock():
            self.store.delete_messages(self._id)

    def window(self) -> Window:
        """What bounds the memory at this moment.

        Raises:
            ValueError: the limit is not above zero.
        """
        limit = self._limit(self._id) if callable(self._limit) else self._limit
        return Window(
            kind=self._kind,
            limit=check_limit(limit, self._limit_name),
            estimator=self._estimator,
            always_keep_system_message_first=self._system_message_first,
        )

    def _lock(self) -> AbstractContextManager[Any]:
        return _LOCKS[hash((id(self.store), self._id)) % len(_LOCKS)]


def _stored(messages: Iterable[ChatMessage], window: Window) -> list[Entry]:
    if window.estimator is None:
        return [Entry(message, 1) for message in messages]
    return [Entry(message, stored_count(message, window.estimator)) for message in messages]


class MessageWindowChatMemory(WindowChatMemory):
    """A memory of at most N messages."""

    _kind = WindowKind.MESSAGES
    _limit_name = "max_messages"

    def __init__(
        self,
        *,
        id: Any = "default",
        max_messages: int | Callable[[Any], int] = _REQUIRED,
        store: ChatMemoryStore | None = None,
        always_keep_system_message_first: bool = False,
    ) -> None:
        """
        Args:
            id: the memory ID, anything hashable but None.
            max_messages: the limit, or a callable that is given the ID and returns the limit of the moment.
            store: where the messages are kept; by default in this object.
            always_keep_system_message_first: whether a new system message goes to the front.

        Raises:
            ValueError: the limit is not above zero, or the ID is None.
        """
        super().__init__(id, max_messages, None, store, always_keep_system_message_first)


class TokenWindowChatMemory(WindowChatMemory):
    """A memory of at most N tokens. A message that does not fit is evicted whole."""

    _kind = WindowKind.TOKENS
    _limit_name = "max_tokens"

    def __init__(
        self,
        *,
        id: Any = "default",
        max_tokens: int | Callable[[Any], int] = _REQUIRED,
        token_count_estimator: TokenCountEstimator = _REQUIRED,
        store: ChatMemoryStore | None = None,
        always_keep_system_message_first: bool = False,
    ) -> None:
        """
        Args:
            id: the memory ID, anything hashable but None.
            max_tokens: the limit, or a callable that is given the ID and returns the limit of the moment.
            token_count_estimator: counts the tokens of each message.
            store: where the messages are kept; by default in this object.
            always_keep_system_message_first: whether a new system message goes to the front.

        Raises:
            ValueError: the limit is not above zero, or the ID or the estimator is None.
        """
        super().__init__(id, max_tokens, token_count_estimator, store, always_keep_system_message_first)
        if token_count_estimator is None or token_count_estimator is _REQUIRED:
            raise ValueError("token_count_estimator cannot be null")
