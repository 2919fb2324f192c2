"""One turn at a time: who may add to a memory while the model thinks, and how one waits for that."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from chatmemory.assistant.errors import TurnLostError
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
    def interrupt(self) -> None:
        """End the turn of this conversation that is under way, whoever has it."""

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


class _Slot:
    """Who has the turn of one memory."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder: LocalTurn | None = None


_SLOTS: WeakValueDictionary[Any, _Slot] = WeakValueDictionary()
_SLOTS_LOCK = threading.Lock()


class LocalTurn(Turn):
    """Of a memory that only this process knows, or whose store has no turns: noted in the process."""

    timeout = float("inf")  # no process is left that could take it over

    def __init__(self, memory: ChatMemory) -> None:
        self._memory = memory
        self.name = repr(memory.id)
        # A provider may make a memory anew each time, on one store.
        store = getattr(memory, "store", None)
        key = (id(memory),) if store is None else (id(store), memory.id)
        with _SLOTS_LOCK:
            self._slot = _SLOTS.setdefault(key, _Slot())

    def try_take(self) -> bool:
        with self._slot.lock:
            if self._slot.holder is None:
                self._slot.holder = self
            return self._slot.holder is self

    def renew(self) -> None:
        if self._slot.holder is not self:
            raise TurnLostError(f"The turn of conversation {self.name} was interrupted.")

    def release(self) -> None:
        with self._slot.lock:
            if self._slot.holder is self:
                self._slot.holder = None

    def interrupt(self) -> None:
        with self._slot.lock:
            self._slot.holder = None

    def messages(self) -> list[ChatMessage]:
        return self._memory.messages()

    def add(self, messages: Sequence[ChatMessage], idempotency_key: str | None = None) -> Added:
        if idempotency_key is not None:
            raise ValueError("idempotency_key needs a memory in Django's database")
        with self._slot.lock:
            self.renew()
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
