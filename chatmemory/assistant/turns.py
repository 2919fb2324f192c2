"""One turn at a time: who may add to a memory while the model thinks, and how one waits for that."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from chatmemory.memory import ChatMemory
from chatmemory.messages import AiMessage, ChatMessage

if TYPE_CHECKING:
    from chatmemory.ledger import Change

__all__ = ["Added", "LocalTurn", "Turn", "open_turn"]


@dataclass(frozen=True)
class Added:
    """What a turn added to the memory, at once."""

    messages: tuple[ChatMessage, ...]

    change: Change | None = None
    """The account of it, with what was evicted; None for memories that are not in Django's database."""


class Turn(ABC):
    """The right to speak in one conversation. It is tried for, held, and given back; nothing here waits."""

    name: str
    """The conversation, for errors."""

    timeout: float
    """Seconds after which it may be taken over, unless it is renewed: a process that is killed blocks no longer."""

    @abstractmethod
    def try_take(self) -> bool:
        """Take it, unless another has it."""

    @abstractmethod
    def renew(self) -> None:
        """Say that this turn is alive.

        Raises:
            TurnLostError: another has taken over.
        """

    @abstractmethod
    def release(self) -> None:
        """Give it back, if it was taken."""

    @abstractmethod
    def messages(self) -> list[ChatMessage]:
        """The memory."""

    @abstractmethod
    def add(self, messages: Sequence[ChatMessage], idempotency_key: str | None = None) -> Added:
        """Add to the memory, as one change.

        Raises:
            TurnLostError: another has taken over; nothing was added.
        """

    @abstractmethod
    def answer_to(self, added: Added) -> AiMessage | None:
        """The answer that the messages of an idempotency key got, if they came before."""


class _Lock:
    """A lock that a weak reference can lead to."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_LOCKS: WeakValueDictionary[Any, _Lock] = WeakValueDictionary()
_LOCKS_LOCK = threading.Lock()


class LocalTurn(Turn):
    """Of a memory that only this process knows, or whose store has no turns: a lock in the process."""

    timeout = float("inf")  # no process is left that could take it over

    def __init__(self, memory: ChatMemory) -> None:
        self._memory = memory
        self.name = repr(memory.id)
        # A provider may make a memory anew each time, on one store.
        store = getattr(memory, "store", None)
        key = (id(memory),) if store is None else (id(store), memory.id)
        with _LOCKS_LOCK:
            self._lock = _LOCKS.setdefault(key, _Lock())
        self._is_taken = False

    def try_take(self) -> bool:
        self._is_taken = self._lock.lock.acquire(blocking=False)
        return self._is_taken

    def renew(self) -> None:
        pass

    def release(self) -> None:
        if self._is_taken:
            self._is_taken = False
            self._lock.lock.release()

    def messages(self) -> list[ChatMessage]:
        return self._memory.messages()

    def add(self, messages: Sequence[ChatMessage], idempotency_key: str | None = None) -> Added:
        if idempotency_key is not None:
            raise ValueError("idempotency_key needs a memory in Django's database")
        self._memory.add(*messages)
        return Added(tuple(messages))

    def answer_to(self, added: Added) -> AiMessage | None:
        return None


def open_turn(memory: ChatMemory, timeout: float) -> Turn:
    """The turn of a memory, not taken yet.

    Args:
        memory: of any kind.
        timeout: seconds after which another may take over, if this one does not renew.
    """
    if "chatmemory.models" in sys.modules:  # else no memory can be one of Django's
        from chatmemory.assistant.conversation_turns import ConversationTurn

        if (turn := ConversationTurn.of(memory, timeout)) is not None:
            return turn
    return LocalTurn(memory)
