"""Thinking that an API binds to all that stands before it, left out where something there has changed.

Which answers are stale, only the keeper of the memory knows. What follows from it is known here:

- In the turn under way, thinking stays: an API may demand what led to the calls whose results are sent now.
- In a turn that is over, thinking that was written behind stale thinking is stale, too, because that is not sent.
- Answers between a call and its late result are stale, because the result is moved before them.
- Thinking behind something that is left out of an answer is stale, such as what a format kept aside.

Where only the messages are known, and not their keeper, an answer itself says what its thinking is bound to: a digest
of the tools, the system message and the messages that it was made from (``bound``, ``fresh_answers``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, TypeVar

from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.core.serialization import message_to_data
from chatmemory.formats import naming_message
from chatmemory.formats.kept_parts import with_attributes
from chatmemory.formats.validity import Repair, RepairReason, Valid

T = TypeVar("T")

_DIGITS = 32

Thinking = Literal["all", "none"] | Collection[int]
"""The thinking to send: all, none, or that of the messages with these indexes, before which nothing has changed."""


def without_stale_thinking(
    valid: Valid,
    given: Sequence[ChatMessage],
    thinking: Thinking,
    without: Callable[[AiMessage], AiMessage | None],
    repairs: list[Repair],
    stale: Collection[int] = (),
    lost: Collection[int] = (),
) -> Valid:
    """Return a valid memory without the thinking that an API refuses.

    Args:
        valid: the memory.
        given: the messages that it was made of.
        thinking: what may be sent.
        without: returns an answer without its thinking; None if it has none that would be sent.
        repairs: gets one for each answer that is changed.
        stale: the positions of more answers whose thinking is stale.
        lost: the positions of the answers that have lost something, so that thinking behind them is stale.

    Raises:
        ValueError: ``thinking`` is another text.
        UnsupportedContentError: ``without`` raised ``CannotExpressError``.
    """
    if isinstance(thinking, str) and thinking not in ("all", "none"):
        raise ValueError(f'thinking must be "all", "none" or indexes of messages, but is: {thinking!r}')
    if thinking != "none":
        thinking = set(valid.positions if thinking == "all" else thinking).difference(stale)
    messages = list(valid.messages)

    def rest_of(index: int) -> AiMessage | None:
        message = valid.messages[index]
        with naming_message(given, valid.positions[index]):
            return without(message) if isinstance(message, AiMessage) else None

    for index, rest in stale_answers(valid, thinking, rest_of, lost):
        messages[index] = rest
        what = "Thinking was left out, because what stands before it has changed since."
        repairs.append(Repair(valid.positions[index], RepairReason.STALE_THINKING, what))
    return replace(valid, messages=messages)


def stale_answers(
    valid: Valid, thinking: Thinking, without: Callable[[int], T | None], lost: Collection[int] = ()
) -> Iterator[tuple[int, T]]:
    """Yield the index of each answer whose thinking must not be sent, and the rest of it.

    Args:
        valid: the memory.
        thinking: what may be sent.
        without: returns the message with an index, in the valid memory, without its thinking; None if it has none.
        lost: see ``without_stale_thinking``.
    """
    fresh = set(valid.positions if thinking == "all" else () if thinking == "none" else thinking)
    under_way = len(valid.messages) if thinking == "none" else _turn_under_way(valid.messages)
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
        if position in lost:
            follows_stale = True


def _turn_under_way(messages: Sequence[ChatMessage]) -> int:
    """Return the index at which the turn under way begins if the model goes on from a tool's result; else the end.

    APIs take system messages apart, so these end no turn. A call that ends the memory gets its result in the request.
    """
    said = [(index, message) for index, message in enumerate(messages) if not isinstance(message, SystemMessage)]
    match said[-1:]:
        case [(_, ToolExecutionResultMessage())]:
            pass
        case [(_, AiMessage(tool_execution_requests=requests))] if requests:
            pass
        case _:
            return len(messages)
    return next((index for index, message in reversed(said) if isinstance(message, UserMessage)), 0)


def bound(message: AiMessage, attribute: str, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
    """Return an answer that says in an attribute what its thinking is bound to.

    Args:
        message: the answer.
        attribute: the attribute that gets the digest.
        messages: those that it answers.
        tools: the tools of the request, as JSON has them.
    """
    *_, prefix = _prefixes(messages, tools)
    return with_attributes(message, {**message.attributes, attribute: prefix})


def fresh_answers(messages: Sequence[ChatMessage], attribute: str, tools: Any) -> Collection[int]:
    """Return the indexes of the answers before which nothing has changed since ``bound`` wrote the attribute."""
    if not any(isinstance(message, AiMessage) and attribute in message.attributes for message in messages):
        return []
    return [
        index
        for index, (message, prefix) in enumerate(zip(messages, _prefixes(messages, tools), strict=False))
        if isinstance(message, AiMessage) and message.attributes.get(attribute) == prefix
    ]


def _prefixes(messages: Sequence[ChatMessage], tools: Any) -> Iterator[str]:
    """Yield the digest of what stands before each message, and at last of all of them."""
    # Anthropic has the system text apart, before all messages.
    so_far = sha256(_bytes([tools or [], [one.text for one in messages if isinstance(one, SystemMessage)]]))
    for message in messages:
        yield so_far.hexdigest()[:_DIGITS]
        if not isinstance(message, SystemMessage):
            so_far.update(_bytes(message_to_data(message)))
    yield so_far.hexdigest()[:_DIGITS]


def _bytes(value: Any) -> bytes:
    # Databases keep no order of keys. A lone surrogate, which APIs would refuse, is no reason to fail here.
    return json.dumps(value, sort_keys=True, default=str).encode()
