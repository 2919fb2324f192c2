"""The account of a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from chatmemory.core.eviction import EvictionReason
from chatmemory.database.message_data import messages_to_data
from chatmemory.database.sql.raw_rows import Row, message_of
from chatmemory.formats.registry import message_format
from chatmemory.models import Conversation, Message

__all__ = ["Change", "MemorySize"]

Gone = tuple[Row | Message, EvictionReason]
"""What left the memory, and why."""


@dataclass(frozen=True, kw_only=True)
class MemorySize:
    """How large a memory is, and may be."""

    window: str
    """``"messages"`` or ``"tokens"``: what ``limit`` counts."""

    limit: int

    messages: int
    """Retained ones."""

    tokens: int
    """Of the retained messages."""

    version: int

    @classmethod
    def of(cls, conversation: Conversation) -> MemorySize:
        """As the counters have it."""
        return cls(
            window=conversation.window,
            limit=conversation.limit,
            messages=conversation.retained_count,
            tokens=conversation.retained_tokens,
            version=conversation.version,
        )


@dataclass
class Change:
    """What a change did."""

    conversation: Conversation
    """As it is after the change."""

    added: list[Message] = field(default_factory=list)
    """The new rows, in the order said. Some may be evicted already."""

    gone: list[Gone] = field(default_factory=list)
    """What :attr:`evicted` is made of."""

    size: MemorySize | None = None
    """What :attr:`memory` was, once something was written: :attr:`conversation` may go on to later versions."""

    moment: datetime | None = None
    """When that was."""

    @cached_property
    def evicted(self) -> list[Message]:
        """The rows that left the memory, each with its reason; made when somebody asks."""
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
