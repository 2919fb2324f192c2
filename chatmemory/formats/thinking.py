"""Thinking that an API binds to all that stands before it, left out where something there has changed.

Which answers are stale, only the keeper of the memory knows. What follows from it is known here:

- In the turn under way, thinking stays: an API may demand what led to the calls whose results are sent now.
- In a turn that is over, thinking that was written behind stale thinking is stale, too, because that is not sent.
- Answers between a call and its late result are stale, because the result is moved before them.
- An answer that lost what a format kept aside is stale, because its thinking may have stood behind that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats import naming_message
from chatmemory.formats.rules import Repair, RepairReason
from chatmemory.formats.validity import Valid

__all__ = ["Thinking", "stale_answers", "without_stale_thinking"]

T = TypeVar("T")

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
        repairs: those made so far; gets one for each answer that is changed.

    Raises:
        ValueError: ``thinking`` is another text.
        UnsupportedContentError: ``without`` raised ``CannotExpressError``.
    """
    if isinstance(thinking, str) and thinking not in ("all", "none"):
        raise ValueError(f'thinking must be "all", "none" or indexes of messages, but is: {thinking!r}')
    if thinking != "none":
        changed = {repair.position for repair in repairs if repair.reason is RepairReason.REASONING}
        thinking = set(valid.positions if thinking == "all" else thinking) - changed
    messages = list(valid.messages)

    def rest_of(index: int) -> AiMessage | None:
        message = valid.messages[index]
        with naming_message(given, valid.positions[index]):
            return without(message) if isinstance(message, AiMessage) else None

    for index, rest in stale_answers(valid, thinking, rest_of):
        messages[index] = rest
        what = "Thinking was left out, because what stands before it has changed since."
        repairs.append(Repair(valid.positions[index], RepairReason.STALE_THINKING, what))
    return replace(valid, messages=messages)


def stale_answers(valid: Valid, thinking: Thinking, without: Callable[[int], T | None]) -> Iterator[tuple[int, T]]:
    """Yield the index of each answer whose thinking must not be sent, and the rest of it.

    Args:
        valid: the memory.
        thinking: what may be sent.
        without: returns the message with an index, in the valid memory, without its thinking; None if it has none.
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
        elif index < under_way and (follows_stale or position not in fresh or position < latest_result):
            rest = without(index)
            if rest is not None:
                follows_stale = True
                yield index, rest


def _turn_under_way(valid: Valid) -> int:
    """Return the index at which the turn under way begins if the memory ends with a tool's result; else the end."""
    end = len(valid.messages)
    if not end or not isinstance(valid.messages[-1], ToolExecutionResultMessage):
        return end
    users = (index for index in range(end - 1, -1, -1) if isinstance(valid.messages[index], UserMessage))
    return next(users, 0)
