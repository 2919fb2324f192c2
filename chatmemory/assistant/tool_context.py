"""The caller of a tool, for tools that need to know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["ToolContext"]


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The conversation that calls a tool.

    A parameter of a tool with this type is filled by the assistant. The model is not told of it and cannot set it.
    """

    conversation: Conversation | None = None
    """None if the memory is not in Django's database."""

    owner: Any = None
    """The user whose conversation it is; None if nobody owns it."""

    memory_id: Any = None
    """The ID of the memory; of a conversation its ``memory_id``."""

    data: Any = None
    """The ``context`` that ``chat()`` was given; over REST the request."""
