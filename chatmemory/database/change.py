"""The account of a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from chatmemory.core.entries import EvictionReason
from chatmemory.database.plain_data import messages_to_data
from chatmemory.database.sql.raw_rows import Row, message_of
from chatmemory.formats.registry import message_format
from chatmemory.models import Conversation, Message

__all__ = ["Change", "MemorySize"]

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
        memory = self.memory
        return {
            "added": messages_to_data(self.added, chosen),
            "evicted": messages_to_data(self.evicted, chosen),
            "memory": {
                "window": memory.window,
                "limit": memory.limit,
                "messages": memory.messages,
                "tokens": memory.tokens,
            },
            "version": memory.version,
        }


def mark_evicted(message: Message, version: int, moment: datetime | None, reason: EvictionReason) -> None:
    message.evicted_in = version
    message.evicted_at = moment
    message.eviction_reason = reason.value
