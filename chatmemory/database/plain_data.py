"""Rows of messages as plain data, for a page or for REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from chatmemory.core.entries import EvictionReason
from chatmemory.core.messages import ChatMessage
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import MessageFormat, one_for_one
from chatmemory.models import Message

__all__ = ["MESSAGE_FIELDS", "MessageData", "messages_to_data"]


class MessageData(TypedDict):
    """A message, its state in the memory and why it left."""

    position: int

    type: str

    text: str
    """The message as plain text; empty if it has none."""

    message: Any
    """The message in the chosen format; None if the format cannot express it."""

    state: Literal["retained", "evicted"]

    reason: EvictionReason | None
    """The reason of the eviction; None if the message is retained."""

    token_count: int

    synthetic: bool
    """Whether nobody said it, so that the history leaves it out: whether ``origin`` is not ``"said"``."""

    origin: str
    """``"said"``, ``"rewrite"``, ``"copy"`` or ``"cleared"``."""

    covers_from: int | None
    """The first position that it stands for; None if it stands for no other message."""

    covers_to: int | None
    """The last position that it stands for."""

    pinned: bool

    added_in: int
    """The version of the memory with which the message came."""

    evicted_in: int | None
    """The version of the memory with which the message left."""

    evicted_at: datetime | None

    created_at: datetime | None
    """The time at which the message was said; None for a message that was only tried."""


MESSAGE_FIELDS = list(MessageData.__annotations__)
"""The keys of :class:`MessageData`."""


def messages_to_data(rows: Iterable[Message], format: MessageFormat) -> list[MessageData]:
    """Return the rows of one conversation as plain data, in the order given.

    Raises:
        ValueError: the format has no value for each message.
    """
    write = format.write_each
    if write is None:
        raise ValueError(f"{format.title} has no value for each message; expected one of {', '.join(one_for_one())}")
    given = list(rows)
    written = _written(sorted(given, key=lambda row: row.position), write)
    return [_row_to_data(row, written[row.position]) for row in given]


def _written(rows: Sequence[Message], write: Callable[[Sequence[ChatMessage]], list[Any]]) -> dict[int, Any]:
    """Return the messages as ``write`` makes them, by position."""
    try:
        # Together and in order, for a format may tie tool results to their calls.
        messages = write([row.message for row in rows])
    except UnsupportedContentError:
        messages = [_written_alone(row, write) for row in rows]
    return dict(zip((row.position for row in rows), messages, strict=True))


def _written_alone(row: Message, write: Callable[[Sequence[ChatMessage]], list[Any]]) -> Any:
    try:
        return write([row.message])[0]
    except UnsupportedContentError:
        return None


def _row_to_data(row: Message, message: Any) -> MessageData:
    return {
        "position": row.position,
        "type": row.type,
        "text": row.text,
        "message": message,
        "state": "retained" if row.is_retained else "evicted",
        "reason": EvictionReason(row.eviction_reason) if row.eviction_reason else None,
        "token_count": row.token_count,
        "synthetic": row.synthetic,
        "origin": row.origin,
        "covers_from": row.covers_from,
        "covers_to": row.covers_to,
        "pinned": row.is_pinned,
        "added_in": row.added_in,
        "evicted_in": row.evicted_in,
        "evicted_at": row.evicted_at,
        "created_at": row.created_at,
    }
