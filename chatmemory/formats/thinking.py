"""Thinking that an API binds to all that stands before it, left out where something there has changed.

Which answers are stale, only the keeper of the memory knows. What follows from it is known here:

- In the turn under way, thinking stays: an API may demand what led to the calls whose results are sent now.
- In a turn that is over, thinking that was written behind stale thinking is stale, too, because that is not sent.
- Answers between a call and its late result are stale, because the result is moved before them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats import naming_message
from chatmemory.formats.rules import Repair, RepairReason
from chatmemory.formats.validity import Valid

__all__ = ["Thinking", "stale_answers", "without_stale_thinking"]

Thinking = Literal["all", "none"] | Collection[int]
"""The thinking to send: all, none, or that of the messages with these indexes, before which nothing has changed."""


def without_stale_thinking(
    valid: Valid,
    given: Sequence[ChatMessage],
    thinking: Thinking,
    without: Callable[[AiMessage], AiMessage | None],
    repairs: list[Repair],
) -> Valid:
    """Return a valid memory without the thinking that an API refuses.

    Args:
        valid: the memory.
        given: the messages that it was made of.
        thinking: what may be sent.
        without: returns an answer without its thinking; None if it has none that would be sent.
        repairs: gets a repair for each answer that is changed.

    Raises:
        ValueError: ``thinking`` is another text.
        UnsupportedContentError: ``without`` raised ``CannotExpressError``.
    """
    if isinstance(thinking, str) and thinking not in ("all", "none"):
        raise ValueError(f'thinking must be "all", "none" or indexes of messages, but is: {thinking!r}')
    messages = list(valid.messages)
    without_thinking: dict[int, AiMessage] = {}
    for index, (position, message) in enumerate(zip(valid.positions, messages, strict=True)):
        with naming_message(given, position):
            rest = without(message) if isinstance(message, AiMessage) else None
        if rest is not None:
            without_thinking[index] = rest
    for index in stale_answers(valid, thinking, without_thinking):
        messages[index] = without_thinking[index]
        what = "Thinking was left out, because what stands before it has changed since."
        repairs.append(Repair(valid.positions[index], RepairReason.STALE_THINKING, what))
    return replace(valid, messages=messages)


def stale_answers(valid: Valid, thinking: Thinking, thoughtful: Container[int]) -> Iterator[int]:
    """Yield the indexes of the answers whose thinking must not be sent.

    Args:
        valid: the memory.
        thinking: what may be sent.
        thoughtful: the indexes, in the valid memory, of the answers that have thinking.
    """
    fresh = set(valid.positions if thinking == "all" else () if thinking == "none" else thinking)
    under_way = len(valid.messages) if thinking == "none" else _turn_under_way(valid)
    latest_result = -1
    follows_stale = False
    for index, (position, message) in enumerate(zip(valid.positions, valid.messages, strict=True)):
        if isinstance(message, UserMessage):
            follows_stale = False
        elif isinstance(message, ToolExecutionResultMessage):
            latest_result = max(latest_result, position)
        elif index in thoughtful and index < under_way:
            follows_stale = follows_stale or position not in fresh or position < latest_result
            if follows_stale:
                yield index


def _turn_under_way(valid: Valid) -> int:
    """Return the index at which the turn under way begins if the memory ends with a tool's result; else the end."""
    end = len(valid.messages)
    if not end or not isinstance(valid.messages[-1], ToolExecutionResultMessage):
        return end
    users = (index for index in range(end - 1, -1, -1) if isinstance(valid.messages[index], UserMessage))
    return next(users, 0)
