"""One turn at a time: who may add to a memory while the model thinks, and how one waits for that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatmemory.core.messages import AiMessage, ChatMessage

if TYPE_CHECKING:
    from chatmemory.database.change import Change

__all__ = ["Added", "Turn"]


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
