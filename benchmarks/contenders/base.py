"""The interface of contenders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from benchmarks.places import Place
from benchmarks.windows import Window

__all__ = ["AsyncContender", "Contender", "SyncContender"]


class Contender(ABC):
    """One way to keep one conversation, in one place, under one window."""

    engines: ClassVar[tuple[str, ...]] = ("sqlite", "postgres")
    windows: ClassVar[tuple[str, ...]] = ("messages", "tokens")
    largest_history: ClassVar[int] = 100_000
    """The longest history in messages to measure."""

    def __init__(self, place: Place, window: Window) -> None:
        self.place = place
        self.window = window

    def prepare(self, user_text: str, ai_text: str) -> None:  # noqa: B027
        """Prepare a turn; never timed."""

    @abstractmethod
    def texts(self, window: Any) -> list[str]:
        """Return the texts, oldest first, of what ``turn`` returned; never timed."""


class SyncContender(Contender):
    """A contender that blocks."""

    @abstractmethod
    def fill(self, history: int) -> None:
        """Connect, and add the first ``history`` messages; never timed."""

    @abstractmethod
    def turn(self, user_text: str, ai_text: str) -> Any:
        """Add a user's message, add the AI's answer, then read the window once and return it."""

    @abstractmethod
    def close(self) -> None:
        """Close what ``fill`` opened."""


class AsyncContender(Contender):
    """A contender whose methods are coroutines, all run in one event loop."""

    @abstractmethod
    async def fill(self, history: int) -> None: ...

    @abstractmethod
    async def turn(self, user_text: str, ai_text: str) -> Any: ...

    @abstractmethod
    async def close(self) -> None: ...
