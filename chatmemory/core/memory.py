"""The protocol of stores, and two stores that hold memories in this process."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Unpack

from chatmemory.core.arguments import require_list
from chatmemory.core.asynchronous import async_change, async_read
from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from chatmemory.core.messages import ChatMessage, require_messages
from chatmemory.core.tokens import TokenCountEstimator, stored_count
from chatmemory.core.window import RULES, USUAL_LIMITS, Window, WindowKind, WindowOptions, check


class ChatMemoryStore(Protocol):
    """A store: any object with these three methods.

    Within a process, a memory never runs two changes of the same memory ID at once. If several processes share a store,
    it loses messages that are added at the same time, unless it is a ``WindowedChatMemoryStore``.
    """

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """Return all messages of the memory, in order; an empty list for an unknown ID."""

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Replace all messages of the memory."""

    def delete_messages(self, memory_id: Any) -> None:
        """Delete the memory; do nothing for an unknown ID."""


class WindowedChatMemoryStore(ABC):
    """A store that applies the window itself, so that each change is atomic even if other processes write.

    It is also a ``ChatMemoryStore``. A memory calls the methods below instead of those three, without a lock.
    """

    @abstractmethod
    def delete_messages(self, memory_id: Any) -> None:
        """Delete the memory; do nothing for an unknown ID."""

    @abstractmethod
    def get_window(self, memory_id: Any, window: Window) -> list[ChatMessage]:
        """Return the messages that fit ``window``. Write nothing."""

    @abstractmethod
    def add_to_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Add ``messages`` one after the other, in one change."""

    @abstractmethod
    def set_window(self, memory_id: Any, messages: Sequence[ChatMessage], window: Window) -> None:
        """Replace the memory by ``messages``, and evict what does not fit."""


class InMemoryChatMemoryStore:
    """A store of any number of memories. IDs are compared like dict keys: 1 and "1" differ."""

    def __init__(self) -> None:
        self._messages: dict[Any, tuple[ChatMessage, ...]] = {}

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """Return a new list of the messages of the memory."""
        return list(self._messages.get(_not_null(memory_id), ()))

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Replace the messages of the memory by a copy of ``messages``."""
        self._messages[_not_null(memory_id)] = _checked(memory_id, messages)

    def delete_messages(self, memory_id: Any) -> None:
        """Delete the memory."""
        self._messages.pop(_not_null(memory_id), None)


class SingleSlotChatMemoryStore:
    """A store of one memory: the default store of each memory."""

    def __init__(self, memory_id: Any) -> None:
        self._memory_id = memory_id
        self._messages: tuple[ChatMessage, ...] = ()

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        """Return a new list of the messages.

        Raises:
            ValueError: ``memory_id`` is the ID of another memory.
        """
        self._check(memory_id)
        return list(self._messages)

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        """Replace the messages by a copy of ``messages``.

        Raises:
            ValueError: ``memory_id`` is the ID of another memory.
        """
        self._check(memory_id)
        self._messages = _checked(memory_id, messages)

    def delete_messages(self, memory_id: Any) -> None:
        """Delete the messages.

        Raises:
            ValueError: ``memory_id`` is the ID of another memory.
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


_REQUIRED: Any = object()


class ChatMemory(ABC):
    """The messages that a model gets.

    Every method has an async version whose name begins with ``a``.
    """

    @property
    @abstractmethod
    def id(self) -> Any:
        """The memory ID."""

    @abstractmethod
    def add(self, *messages: ChatMessage) -> object:
        """Add messages one after the other, all or none, and evict what no longer fits.

        Subclasses may return the change, also from ``set`` and ``clear``.

        Raises:
            TypeError: an argument is not a message.
        """

    @abstractmethod
    def set(self, messages: Iterable[ChatMessage]) -> object:
        """Replace all messages by ``messages``, and evict what does not fit.

        Raises:
            TypeError: an item is not a message.
        """

    @abstractmethod
    def messages(self) -> list[ChatMessage]:
        """Return a new list of the messages, in order."""

    @abstractmethod
    def clear(self) -> object:
        """Remove all messages."""

    aadd = async_change(add)

    aset = async_change(set)

    amessages = async_read(messages)

    aclear = async_change(clear)


class WindowChatMemory(ChatMemory):
    """A memory bounded by a window. The subclasses differ in the cost of a message."""

    _kind: WindowKind
    _limit_name: str

    def __init__(
        self,
        *,
        id: Any,
        limit: int | Callable[[Any], int],
        token_count_estimator: TokenCountEstimator | None,
        store: ChatMemoryStore | WindowedChatMemoryStore | None,
        settings: WindowOptions,
    ) -> None:
        if id is None:
            raise ValueError("id cannot be null")
        hash(id)  # a TypeError now rather than at the first add
        if limit is _REQUIRED:
            raise _missing(f"{self._limit_name}_provider", f"{self._limit_name}={USUAL_LIMITS[self._kind]}")
        self._id = id
        self._limit = limit
        self._estimator = token_count_estimator
        self._store = SingleSlotChatMemoryStore(id) if store is None else store
        self._windowed_store = (
            self._store if isinstance(self._store, WindowedChatMemoryStore) else LockedStore(self._store)
        )
        unknown = next((name for name in settings if name not in RULES or name == "limit"), None)
        if unknown is not None:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {unknown!r}")
        first = bool(settings.get("always_keep_system_message_first"))  # None is False in LangChain4j, too
        self._settings: WindowOptions = {**settings, "always_keep_system_message_first": first}
        for name, value in self._settings.items():
            check(name, value)
        self.window()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self._id!r}, {self._limit_name}={self._limit!r})"

    @property
    def id(self) -> Any:
        return self._id

    @property
    def store(self) -> ChatMemoryStore | WindowedChatMemoryStore:
        """The store that was passed to the constructor, or the memory's own."""
        return self._store

    def add(self, *messages: ChatMessage) -> None:
        added = require_messages(messages)
        if added:
            self._windowed_store.add_to_window(self._id, added, self.window())

    def set(self, messages: Iterable[ChatMessage]) -> None:
        self._windowed_store.set_window(self._id, require_messages(messages), self.window())

    def messages(self) -> list[ChatMessage]:
        return self._windowed_store.get_window(self._id, self.window())

    def clear(self) -> None:
        self._windowed_store.delete_messages(self._id)

    def window(self) -> Window:
        """Return the current window. Its limit may be dynamic.

        Raises:
            ValueError: the limit is not greater than zero.
        """
        limit = self._limit(self._id) if callable(self._limit) else self._limit
        return Window(
            kind=self._kind,
            limit=check("limit", limit, self._limit_name),
            estimator=self._estimator,
            **self._settings,
        )


class MessageWindowChatMemory(WindowChatMemory):
    """A memory of at most ``max_messages`` messages."""

    _kind = WindowKind.MESSAGES
    _limit_name = "max_messages"

    def __init__(
        self,
        *,
        id: Any = "default",
        max_messages: int | Callable[[Any], int] = _REQUIRED,
        store: ChatMemoryStore | None = None,
        **settings: Unpack[WindowOptions],
    ) -> None:
        """Args:
            id: the memory ID: anything hashable except None.
            max_messages: the limit, or a callable that takes the ID and returns the current limit.
            store: where the messages are stored; by default in this object.
            settings: what the window evicts: see ``chatmemory.core.window.WindowSettings``. A placeholder counts as a
                message, so ``keep_tool_results`` has no effect here.

        Raises:
            ValueError: a setting is invalid, or the ID is None.
        """
        super().__init__(
            id=id,
            limit=max_messages,
            token_count_estimator=None,
            store=store,
            settings=settings,
        )


class TokenWindowChatMemory(WindowChatMemory):
    """A memory of at most ``max_tokens`` tokens. A message that does not fit is evicted as a whole."""

    _kind = WindowKind.TOKENS
    _limit_name = "max_tokens"

    def __init__(
        self,
        *,
        id: Any = "default",
        max_tokens: int | Callable[[Any], int] = _REQUIRED,
        token_count_estimator: TokenCountEstimator = _REQUIRED,
        store: ChatMemoryStore | None = None,
        **settings: Unpack[WindowOptions],
    ) -> None:
        """Args:
            id: the memory ID: anything hashable except None.
            max_tokens: the limit, or a callable that takes the ID and returns the current limit.
            token_count_estimator: counts the tokens of each message.
            store: where the messages are stored; by default in this object.
            settings: what the window evicts: see ``chatmemory.core.window.WindowSettings``.

        Raises:
            ValueError: a setting is invalid, or the ID or the estimator is None.
        """
        super().__init__(
            id=id,
            limit=max_tokens,
            token_count_estimator=token_count_estimator,
            store=store,
            settings=settings,
        )
        if token_count_estimator is None or token_count_estimator is _REQUIRED:
            raise _missing("token_count_estimator", 'token_count_estimator=OpenAiTokenCountEstimator("gpt-4o")')


def _missing(name: str, example: str) -> ValueError:
    """Return LangChain4j's error, whose wording is fixed, with a note that shows what to pass."""
    error = ValueError(f"{name} cannot be null")
    error.add_note(f"An argument is missing. Pass one, for example {example}.")
    return error


# A memory object is often created for each request, so the lock belongs to the memory ID. A fixed number of locks,
# chosen by hash, needs no bookkeeping. If two memories share a lock, they only wait for each other.
_LOCKS = [threading.RLock() for _ in range(256)]


class LockedStore(WindowedChatMemoryStore):
    """A plain store with a window and a lock for the changes of each memory within this process.

    A store that applies the window itself is not wrapped: its database makes writers wait, and with a second lock,
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
