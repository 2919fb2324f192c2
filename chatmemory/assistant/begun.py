"""A turn that has begun, for callers who must know that before the model answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, TypeAlias

from chatmemory.assistant.pieces import Thinking
from chatmemory.assistant.turns.base import Added
from chatmemory.core.messages import AiMessage

if TYPE_CHECKING:
    from chatmemory.assistant.driver import Driver
    from chatmemory.database.change import Change

__all__ = ["BegunTurn", "TurnEvent"]

TurnEvent: TypeAlias = "str | Thinking | Added | AiMessage"
"""A piece of text or thinking, what was stored, or at last the answer."""


class BegunTurn:
    """A turn that is held, and whose user message is stored; the model was not asked yet.

    Run it to its end by :meth:`events` or :meth:`aevents`, in whatever thread, or :meth:`release` it.
    """

    def __init__(self, driver: Driver, added: list[Added]) -> None:
        self._driver = driver

        self.added = added
        """The additions so far, such as the user's message."""

    @property
    def changes(self) -> list[Change]:
        """The accounts of the additions so far; none if the memory is not in Django's database."""
        return [added.change for added in self.added if added.change is not None]

    @property
    def question(self) -> int | None:
        """The position of the user's message; None if the turn goes on from where the conversation stands."""
        positions = [row.position for change in self.changes for row in change.added if row.type == "USER"]
        return positions[-1] if positions else None

    @property
    def answer(self) -> AiMessage | None:
        """The answer, if there was one already: then the model is not asked."""
        return self._driver.answer

    def events(self) -> Generator[TurnEvent, None, None]:
        """Run the turn to its end, and yield what happens; the answer comes last.

        Raises:
            Exception: as :meth:`~chatmemory.assistant.Assistant.chat` raises it.
        """
        return self._driver.run()

    def aevents(self) -> AsyncGenerator[TurnEvent, None]:
        """Async twin of :meth:`events`."""
        return self._driver.arun()

    def interrupt(self) -> None:
        """End this turn, if it is still under way, while another thread or task runs it; a turn after it goes on."""
        self._driver.interrupt()

    def release(self) -> None:
        """End the turn without asking the model."""
        self._driver.release()
