"""Messages in the formats of models' APIs, to and fro.

All but :mod:`chatmemory.formats.registry`, which reads a setting, are pure functions that need neither Django nor
anybody's SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from chatmemory.core.exceptions import CodedError
from chatmemory.core.messages import ChatMessage

__all__ = ["CannotExpressError", "UnsupportedContentError", "naming_message"]


class UnsupportedContentError(CodedError, ValueError):
    """A message that a format cannot express, and that the model would miss if it were left out."""

    code = "not_expressible"

    def __init__(self, problem: CannotExpressError, index: int, message: ChatMessage) -> None:
        """
        Args:
            problem: what the format cannot express.
            index: the message's index among those to be written.
            message: the message.
        """
        self.problem = str(problem)
        self.index = index
        super().__init__(
            "message %(index)s (%(type)s): %(problem)s", index=index, type=str(message.type), problem=problem
        )


class CannotExpressError(CodedError):
    """The error of :func:`naming_message`, raised where the message's index is not known."""

    code = "not_supported"


@contextmanager
def naming_message(messages: Sequence[ChatMessage], index: int) -> Iterator[None]:
    """Raise an ``UnsupportedContentError``, which names the message, for a ``CannotExpressError``."""
    try:
        yield
    except CannotExpressError as error:
        raise UnsupportedContentError(error, index, messages[index]) from None
