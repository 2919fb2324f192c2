"""What a change did, or would do if a window is only tried; rows as plain data, for a page or for REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, TypedDict

from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import ChatMessage
from chatmemory.database.sql.raw_rows import Row, message_of
from chatmemory.database.sql.writes import chars_of
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import MessageFormat, message_format, one_for_one
from chatmemory.models import Conversation, Message

__all__ = ["MESSAGE_FIELDS", "Change", "MemorySize", "MessageData", "WindowTrial", "messages_to_data"]

Gone = tuple[Row | Message, EvictionReason]
"""A row that left the memory, and the reason."""


@dataclass(frozen=True, kw_only=True)
class MemorySize:
    """The size of a memory, and its bound."""

    window: str
    """The unit of ``limit``: ``"messages"`` or ``"tokens"``."""

    limit: int

    messages: int
    """The number of retained messages."""

    tokens: int
    """The tokens of the retained messages."""

    version: int

    @classmethod
    def of(cls, conversation: Conversation) -> MemorySize:
        """Return the size that the counters of the row say."""
        return cls(
            window=conversation.window,
            limit=conversation.limit,
            messages=conversation.retained_count,
            tokens=conversation.retained_tokens,
            version=conversation.version,
        )

    def to_data(self) -> dict[str, Any]:
        """Return ``version``, and the rest as ``memory``."""
        size = asdict(self)
        version = size.pop("version")
        return {"memory": size, "version": version}


@dataclass
class Change:
    """The account of one change of a memory."""

    conversation: Conversation
    """The conversation after the change."""

    added: list[Message] = field(default_factory=list)
    """The new rows, in the order said, and after them placeholders. Some may be evicted already."""

    gone: list[Gone] = field(default_factory=list)
    """The rows that left, as the database gave them; :attr:`evicted` makes objects of them."""

    size: MemorySize | None = None
    """The size right after the change, if something was written: :attr:`conversation` may go on to later versions."""

    moment: datetime | None = None
    """The time of the change, if something was written."""

    @cached_property
    def evicted(self) -> list[Message]:
        """The rows that left the memory, each with its reason. They are made at the first access."""
        conversation = self.conversation
        messages = []
        for row, reason in self.gone:
            message = row if isinstance(row, Message) else message_of(row, conversation._state.db or "default")
            mark_evicted(message, self.memory.version, self.moment, reason)
            messages.append(message)
        return messages

    @property
    def memory(self) -> MemorySize:
        """The memory right after the change."""
        return self.size or MemorySize.of(self.conversation)

    def to_data(self, format: str) -> dict[str, Any]:
        """Return what ``POST messages/`` of the API answers: ``added``, ``evicted``, ``memory`` and ``version``.

        All of it is plain data but the dates of messages, which are ``datetime``; ``JsonResponse`` writes both.

        Args:
            format: the messages' format, ``"langchain4j"`` or ``"openai"`` for example.

        Raises:
            ValueError: there is no such format, or it has no value for each message.
        """
        chosen = message_format(format)
        items = {"added": messages_to_data(self.added, chosen), "evicted": messages_to_data(self.evicted, chosen)}
        return {**items, **self.memory.to_data()}


@dataclass(frozen=True, kw_only=True)
class WindowTrial:
    """The result of trying a window."""

    window: str
    """``"messages"`` or ``"tokens"``."""

    limit: int
    """The most messages or tokens, as ``window`` says."""

    version: int
    """The version of the memory that it was tried on."""

    prefix_version: int
    """The version of the last change, this one included, that does more than add at the end of the memory."""

    retained: list[Message]
    """The rows that would stay, in memory order."""

    evicted: list[tuple[Message, EvictionReason]]
    """The rows that would be evicted, in that order, each with the reason."""

    added: list[Message]
    """The unsaved rows of the new messages, and of placeholders, with the positions they would have."""

    tokens: int
    """Tokens of the rows that would stay."""

    @property
    def chars(self) -> int:
        """Characters of the rows that would stay, attributes included."""
        return sum(map(chars_of, self.retained))


def mark_evicted(message: Message, version: int, moment: datetime | None, reason: EvictionReason) -> None:
    message.evicted_in = version
    message.evicted_at = moment
    message.eviction_reason = reason.value


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
        InvalidValueError: the format has no value for each message.
    """
    write = format.write_each
    if write is None:
        raise InvalidValueError(
            "%(format)s has no value for each message; expected one of %(choices)s",
            code="invalid_choice",
            format=format.title,
            choices=one_for_one(),
        )
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
