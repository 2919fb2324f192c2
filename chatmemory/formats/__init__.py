"""Messages in the formats of models' APIs, to and fro.

All but :mod:`chatmemory.formats.registry`, which reads a setting, are pure functions that need neither Django nor
anybody's SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from chatmemory.core.messages import ChatMessage

__all__ = ["CannotExpressError", "UnsupportedContentError", "naming_message"]


class UnsupportedContentError(ValueError):
    """A message that a format cannot express, and that the model would miss if it were left out."""

    def __init__(self, problem: str, index: int, message: ChatMessage) -> None:
        """
        Args:
            problem: what the format cannot express.
            index: the message's index among those to be written.
            message: the message.
        """
        self.problem = problem
        self.index = index
        super().__init__(problem, index, message)  # all of them, so that it can be pickled

    def __str__(self) -> str:
        return f"message {self.index} ({self.args[2].type}): {self.problem}"


class CannotExpressError(Exception):
    """The error of :func:`naming_message`, raised where the message's index is not known."""


@contextmanager
def naming_message(messages: Sequence[ChatMessage], index: int) -> Iterator[None]:
    """Raise an ``UnsupportedContentError``, which names the message, for a ``CannotExpressError``."""
    try:
        yield
    except CannotExpressError as error:
        raise UnsupportedContentError(str(error), index, messages[index]) from None
