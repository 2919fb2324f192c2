"""Turns within this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from chatmemory.assistant.errors import TurnLostError
from chatmemory.assistant.tool_context import ToolContext
from chatmemory.assistant.turns.base import Added, Lease
from chatmemory.core.memory import ChatMemory
from chatmemory.core.messages import AiMessage, ChatMessage
from chatmemory.core.summaries import Summarizer

if TYPE_CHECKING:
    from chatmemory.database.reading import MemoryBound

__all__ = ["LocalLease"]

_SLOTS: WeakValueDictionary[Any, _Slot] = WeakValueDictionary()

_SLOTS_LOCK = threading.Lock()


class LocalLease(Lease):
    """A turn of a memory that only this process has, or whose store has no turns: a note in this process."""

    timeout = float("inf")  # no process is left that could take it over

    def __init__(self, memory: ChatMemory) -> None:
        self._memory = memory
        self.name = repr(memory.id)
        # A provider may build a memory anew each time, on the same store.
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
            raise TurnLostError(f"The turn of conversation {self.name} was interrupted.", interrupted=True)

    def release(self) -> None:
        with self._slot.lock:
            if self._slot.holder is self:
                self._slot.holder = None

    def rest(self) -> None:
        """Do nothing: there is no connection."""

    def wake(self) -> None:
        """Do nothing: there is no connection."""

    def interrupt(self) -> None:
        with self._slot.lock:
            self._slot.holder = None

    def interrupt_own(self) -> None:
        self.release()

    def messages(self) -> list[ChatMessage]:
        return self._memory.messages()

    def conversation(self) -> None:
        return None

    def tool_context(self, data: Any) -> ToolContext:
        return ToolContext(memory_id=self._memory.id, data=data)

    def add(
        self,
        messages: Sequence[ChatMessage],
        idempotency_key: str | None = None,
        *,
        answers: str | None = None,
        copy_of: int | None = None,
        most: MemoryBound | None = None,
        then: Callable[[], Added] | None = None,
        ends: bool = False,
    ) -> Added:
        if idempotency_key is not None or then is not None:  # the message with the key comes then
            raise ValueError("idempotency_key needs a memory in Django's database")
        if most is not None:
            raise ValueError("most needs a memory in Django's database")
        with self._slot.lock:
            self.renew()
            self._memory.add(*messages)
        return Added(tuple(messages))

    def answer_to(self, added: Added, idempotency_key: str) -> tuple[AiMessage | None, int | None]:
        return None, None  # not reached: add() takes no key

    def summary_key(self) -> Hashable | None:
        return None

    def summarize(self, summarizer: Summarizer) -> None:
        """Do nothing: what such a memory evicts is gone, so a summary that fails or comes late would lose it."""

    def title_key(self) -> Hashable | None:
        return None

    def entitle(self, write: Callable[[Sequence[ChatMessage]], str]) -> None:
        """Do nothing: there is no place for a title."""


class _Slot:
    """The holder of the turn of one memory."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder: LocalLease | None = None
