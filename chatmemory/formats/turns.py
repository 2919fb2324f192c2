"""A memory as formats with turns write it: the system's texts apart, neighbours of one speaker together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chatmemory.core.messages import ChatMessage, SystemMessage
from chatmemory.formats import CannotExpressError, UnsupportedContentError
from chatmemory.formats.validity import Valid

__all__ = ["Turns", "naming_message", "written_turns"]


@dataclass
class Turns:
    """A memory that is ready to be put into a format's own frame."""

    system: list[str] = field(default_factory=list)
    """The texts of the system messages."""

    turns: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    """Each turn's speaker and parts; no two neighbours have the same speaker."""


def written_turns(
    valid: Valid, given: Sequence[ChatMessage], write: Callable[[ChatMessage], tuple[str, list[dict[str, Any]]]]
) -> Turns:
    """Write a valid memory.

    Args:
        valid: the memory.
        given: the messages that it was made of.
        write: returns the speaker and the parts of a message that is not the system's.

    Raises:
        UnsupportedContentError: ``write`` raised ``CannotExpressError``.
    """
    written = Turns()
    for position, message in zip(valid.positions, valid.messages, strict=True):
        if isinstance(message, SystemMessage):
            written.system.append(message.text)
            continue
        with naming_message(given, position):
            speaker, parts = write(message)
        if written.turns and written.turns[-1][0] == speaker:
            written.turns[-1][1].extend(parts)
        else:
            written.turns.append((speaker, parts))
    return written


@contextmanager
def naming_message(given: Sequence[ChatMessage], position: int) -> Iterator[None]:
    """Turn a ``CannotExpressError`` into an ``UnsupportedContentError``, which names the message."""
    try:
        yield
    except CannotExpressError as error:
        raise UnsupportedContentError(str(error), position, given[position]) from None
