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

    rearranged: list[int] = field(default_factory=list)
    """The indexes, among the messages to be written, of those whose parts do not simply follow the parts before."""


def write_transcript(
    valid: Valid,
    given: Sequence[ChatMessage],
    write: Callable[[ChatMessage], tuple[str, Parts]],
    join: Callable[[Parts, Parts], Parts | None] = lambda before, parts: None,
) -> Transcript:
    """Write a valid memory.

    Args:
        valid: the memory.
        given: the messages that it was made of.
        write: returns the speaker and the parts of a message that is not the system's.
        join: is called with the parts of a turn and those of the next message of its speaker; returns them as one turn
            has them, or None if the latter simply follow.

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
            before = transcript.turns[-1][1]
            turn = join(before, parts)
            if turn is None:
                before += parts
            else:
                transcript.rearranged.append(position)
                transcript.turns[-1] = speaker, turn
        else:
            transcript.turns.append((speaker, parts))
    return transcript
