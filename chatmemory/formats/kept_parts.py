"""Pieces that a reader kept aside in attributes, for messages here cannot express them, and that are written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats.rules import Repair, RepairReason
from chatmemory.formats.validity import Valid

__all__ = ["given_up", "is_same_answer", "kept_pieces", "with_attributes", "without_refused"]

_GIVEN_UP = "Thoughts, and what else only this API has, were left out of an answer whose calls were changed."


def kept_pieces(
    message: UserMessage | AiMessage | ToolExecutionResultMessage,
    attribute: str,
    key: str,
    clean: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    is_same: Callable[[list[dict[str, Any]]], bool],
) -> list[dict[str, Any]] | None:
    """Return a copy of the parts, blocks or items that a reader kept; None if there are none to write.

    Anybody may write attributes, so the pieces count only as long as they say what the message says, and nothing else.

    Args:
        message: the message that they were kept beside.
        attribute: the attribute of the format.
        key: the key in it.
        clean: returns pieces that can be read as the reader keeps them, without what it drops.
        is_same: reads pieces, and returns whether they say what the message says.
    """
    kept = message.attributes.get(attribute)
    pieces = kept.get(key) if isinstance(kept, Mapping) else None
    if not isinstance(pieces, (list, tuple)):
        return None
    try:
        plain: list[dict[str, Any]] = _plain(pieces)
        return plain if is_same(plain) and clean(plain) == plain else None
    except (InvalidMessageError, TypeError, KeyError):
        return None  # not written by the format's reader


def without_refused(
    given: Iterable[ChatMessage], attribute: str, problem: Callable[[AiMessage], str | None], repairs: list[Repair]
) -> Iterator[ChatMessage]:
    """Yield the messages, and take the pieces out of each answer whose pieces the API refuses.

    Args:
        given: the messages to be written.
        attribute: the attribute of the format.
        problem: returns what is left out of an answer and why, as a sentence; None if the API takes its pieces.
        repairs: gets a repair for each answer that is changed.
    """
    for position, message in enumerate(given):
        if isinstance(message, AiMessage) and (what := problem(message)):
            repairs.append(Repair(position, RepairReason.REASONING, what))
            others = {key: value for key, value in message.attributes.items() if key != attribute}
            message = with_attributes(message, others)
        yield message


def given_up(given: Sequence[ChatMessage], valid: Valid, kept: Callable[[AiMessage], object]) -> Iterator[Repair]:
    """Yield a repair for each answer whose pieces are not written because its calls had to be changed.

    Args:
        given: the messages that the valid ones were made of.
        valid: the valid messages.
        kept: returns the pieces of an answer, or nothing.
    """
    for position, message in zip(valid.positions, valid.messages, strict=True):
        # Only calls of an answer are changed, and what is kept has the calls as they were.
        if (
            isinstance(message, AiMessage)
            and message is not (before := given[position])
            and kept(cast(AiMessage, before))
        ):
            yield Repair(position, RepairReason.REASONING, _GIVEN_UP)


def is_same_answer(read: AiMessage, message: AiMessage) -> bool:
    """Return whether two answers say the same, whatever their attributes."""
    return (read.text, read.thinking, read.tool_execution_requests) == (
        message.text,
        message.thinking,
        message.tool_execution_requests,
    )


def with_attributes(message: AiMessage, attributes: Mapping[str, Any]) -> AiMessage:
    """Return an answer that says the same, with other attributes."""
    return AiMessage(message.text, message.tool_execution_requests, thinking=message.thinking, attributes=attributes)


def _plain(value: Any) -> Any:
    # Writers change what they send, and attributes are read-only.
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
