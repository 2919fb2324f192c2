"""Messages in the formats of models' APIs, to and fro. Pure functions: no Django, and nobody's SDK."""

from __future__ import annotations

from chatmemory.core.messages import ChatMessage

__all__ = ["CannotExpressError", "UnsupportedContentError"]


class UnsupportedContentError(ValueError):
    """A format has no place for something that was said, and leaving it out would change what the model is told."""

    def __init__(self, problem: str, index: int, message: ChatMessage) -> None:
        """
        Args:
            problem: what the format cannot express.
            index: which of the messages given it is.
            message: that message.
        """
        self.problem = problem
        self.index = index
        super().__init__(problem, index, message)  # all of them, so that it can be pickled

    def __str__(self) -> str:
        return f"message {self.index} ({self.args[2].type}): {self.problem}"


class CannotExpressError(Exception):
    """What a format cannot express, raised within a writer, which makes it an ``UnsupportedContentError``."""
