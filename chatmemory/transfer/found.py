"""What an importer finds in a source: conversations of other programs, as messages of this one."""

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
    """Where it is."""

    message: ChatMessage

    said_at: datetime | None = None
    """When it was said, if the source knows."""

    native: Any = None
    """The source's own form of it, a JSON value; None where the message says all of it."""


@dataclass(frozen=True, kw_only=True)
class FoundConversation:
    """One conversation of a source."""

    place: str
    """Where it is."""

    memory_id: str
    """The source's own ID of it, by which it is known again."""

    messages: Iterable[FoundMessage | BadRecordError]
    """In the order said. Read once, so it may be as long as it likes."""

    framework: str = ""
    """What the native forms are kept under."""

    title: str = ""

    metadata: dict[str, Any] = field(default_factory=dict)
    """What else the source knows of the conversation."""

    owner: str | None = None
    """The user name of whose it is, if the source knows."""

    created_at: datetime | None = None


Found = Iterator[FoundConversation | BadRecordError]
"""What a source gives: conversations, and records that are none."""
