"""The conversations that an importer finds in a source, with messages of this app."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chatmemory.core.messages import ChatMessage
from chatmemory.transfer.reports import BadRecordError

__all__ = ["Found", "FoundConversation", "FoundMessage"]


@dataclass(frozen=True, kw_only=True)
class FoundMessage:
    """One message of a source."""

    place: str
    """The place in the source, for error messages."""

    message: ChatMessage

    said_at: datetime | None = None
    """The time when it was said, if the source knows it."""

    native: Any = None
    """The source's own form, a JSON value; None if the message expresses all of it."""


@dataclass(frozen=True, kw_only=True)
class FoundConversation:
    """One conversation of a source."""

    place: str
    """The place in the source, for error messages."""

    memory_id: str
    """The source's own ID, by which another import recognises the conversation."""

    messages: Iterable[FoundMessage | BadRecordError]
    """The messages in the order said. They are read once, so there may be any number of them."""

    framework: str = ""
    """The framework of the native forms."""

    title: str = ""

    metadata: dict[str, Any] = field(default_factory=dict)
    """Everything else that the source knows of the conversation."""

    owner: str | None = None
    """The user name of the owner, if the source knows it."""

    created_at: datetime | None = None


Found = Iterator[FoundConversation | BadRecordError]
"""The conversations of a source, and an error for each record that cannot be read as one."""
