"""A memory as APIs with turns want it: the system's texts apart, neighbours of one speaker together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatmemory.core.messages import ChatMessage, SystemMessage
from chatmemory.formats import naming_message
from chatmemory.formats.validity import Valid

__all__ = ["Transcript", "write_transcript"]

Parts = list[dict[str, Any]]
"""The parts of a turn as JSON has them."""


@dataclass
class Transcript:
    """Written messages that only lack the frame of their format."""

    system: list[str] = field(default_factory=list)
    """The texts of the system messages."""

    turns: list[tuple[str, Parts]] = field(default_factory=list)
    """The speaker and the parts of each turn; no two neighbours have the same speaker."""


def write_transcript(
    valid: Valid,
    given: Sequence[ChatMessage],
    write: Callable[[ChatMessage], tuple[str, Parts]],
) -> Transcript:
    """Write a valid memory.

    Args:
        valid: the memory.
        given: the messages that it was made of.
        write: returns the speaker and the parts of a message that is not the system's.

    Raises:
        UnsupportedContentError: ``write`` raised ``CannotExpressError``.
    """
    transcript = Transcript()
    for position, message in zip(valid.positions, valid.messages, strict=True):
        if isinstance(message, SystemMessage):
            transcript.system.append(message.text)
            continue
        with naming_message(given, position):
            speaker, parts = write(message)
        if transcript.turns and transcript.turns[-1][0] == speaker:
            transcript.turns[-1][1].extend(parts)
        else:
            transcript.turns.append((speaker, parts))
    return transcript
