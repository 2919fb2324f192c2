"""The turn of any kind of memory, and what it adds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatmemory.core.messages import AiMessage, ChatMessage
from chatmemory.core.summaries import Summarizer

if TYPE_CHECKING:
    from chatmemory.database.change import Change

__all__ = ["Added", "Turn"]


@dataclass(frozen=True)
class Added:
    """Messages that a turn added to the memory in one change."""

    messages: tuple[ChatMessage, ...]

    change: Change | None = None
    """The account of the change, with what was evicted; None for memories that are not in Django's database."""


class Turn(ABC):
    """The right to speak in one conversation. It is tried for, held, and released; nothing here waits."""

    name: str
    """The name of the conversation in errors."""

    timeout: float
    """The seconds after which it may be taken over, unless it is renewed: no killed process blocks for longer."""

    @abstractmethod
    def try_take(self) -> bool:
        """Take the turn, unless another has it, and return whether it is taken."""

    @abstractmethod
    def renew(self) -> None:
        """Extend the turn by its timeout.

        Raises:
            TurnLostError: another has taken over.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the turn, if it is taken, and rest."""

    @abstractmethod
    def rest(self) -> None:
        """Give back the database connections, because the turn does not need them for a while."""

    @abstractmethod
    def wake(self) -> None:
        """Replace the database connection if it died during a rest.

        Raises:
            OperationalError: it does not answer.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """End the turn that is under way in this conversation, whoever has it."""

    @abstractmethod
    def messages(self) -> list[ChatMessage]:
        """Return the messages of the memory."""

    @abstractmethod
    def add(
        self,
        messages: Sequence[ChatMessage],
        idempotency_key: str | None = None,
        *,
        answers: str | None = None,
        copy_of: int | None = None,
    ) -> Added:
        """Add messages to the memory, as one change.

        Args:
            messages: the messages, in order.
            idempotency_key: a second call with the same key and messages adds nothing.
            answers: the idempotency key of the message that the first of ``messages`` answers.
            copy_of: the position at which the history has the message already, if it was said before.

        Raises:
            TurnLostError: another has taken over; nothing was added.
        """

    @abstractmethod
    def answer_to(self, added: Added, idempotency_key: str) -> tuple[AiMessage | None, int | None]:
        """Return the answer to a message that was added with a key, or None; and its position if no answer will come.

        No answer will come if another message was said and answered since.

        Raises:
            AnswerDeletedError: messages after them have been deleted, and the answer may be among those.
        """

    @abstractmethod
    def summary_key(self) -> Hashable | None:
        """Return the key of the conversation if a summary may be due since this turn added to it; no database is asked.

        None is for memories that have no summaries, too.
        """

    @abstractmethod
    def summarize(self, summarizer: Summarizer) -> None:
        """Make a summary if one is due. This thread gives all its connections back.

        Raises:
            Exception: what ``summarizer`` raised, or its text is no summary; the memory stays as it was.
        """
