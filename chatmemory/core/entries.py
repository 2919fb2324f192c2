"""The messages of a memory as entries, and the reasons for which they leave."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Self

from chatmemory.core.messages import AiMessage, ChatMessage, ChatMessageType, ToolExecutionResultMessage
from chatmemory.core.window import Window

__all__ = ["RESULTS_KEPT", "RESULT_CLEARED", "Entry", "EvictionReason"]

RESULT_CLEARED = "[Old tool result cleared]"
"""The text of the placeholder to which an old tool result gives way."""

RESULTS_KEPT = 3
"""The number of tool results, the last of a memory, that stay if whoever clears the others does not say it."""


class EvictionReason(StrEnum):
    """The reason why a message left the memory."""

    WINDOW = "window"
    """The window was full, and the message was the oldest that may leave."""

    ORPHAN = "orphan"
    """The message is a tool result, and its call left."""

    TOOL_CLEARED = "tool_cleared"
    """The message is an old tool result, and a placeholder took its place."""

    SUMMARIZED = "summarized"
    """A summary took the message's place, or that of an earlier summary."""

    REPLACED = "replaced"
    """A new system message took the message's place."""

    REWRITTEN = "rewritten"
    """The memory was rewritten without the message."""

    CLEARED = "cleared"
    """The memory was cleared."""


@dataclass(eq=False)
class Entry:
    """A message in a memory. Two entries are never equal, even if their messages are."""

    message: ChatMessage

    cost: int
    """The part of the window's limit that the message takes: 1, or its tokens."""

    row: Any = None
    """The row of the message, for the store's own use."""

    pinned: bool = False
    """Whether the window may not evict the message."""

    is_placeholder: bool = False
    """Whether the message stands for a tool result that was cleared."""

    is_summary: bool = False
    """Whether the message is the summary of messages that left."""

    replaces: Self | None = None
    """The tool result that gave way to this placeholder, in this change."""

    @property
    def type(self) -> ChatMessageType:
        """The type of the message."""
        return self.message.type

    @property
    def begins_turn(self) -> bool:
        """Whether the message begins a turn: somebody said it to the model."""
        return self.type is ChatMessageType.USER and not self.is_summary

    @property
    def holds_summary(self) -> bool:
        """Whether a model's API put a summary of all that was said before into the message.

        Anthropic's ``compaction`` blocks and OpenAI's ``compaction`` items are kept among an answer's attributes.
        """
        if not isinstance(self.message, AiMessage):
            return False
        kept = (value for framework in self.message.attributes.values() for value in _values(framework))
        return any(isinstance(piece, dict) and piece.get("type") == "compaction" for piece in chain(*kept))

    @property
    def is_result(self) -> bool:
        """Whether the message is the result of a tool."""
        return self.type is ChatMessageType.TOOL_EXECUTION_RESULT

    @property
    def has_calls(self) -> bool:
        """Whether the message calls tools."""
        return isinstance(self.message, AiMessage) and bool(self.message.tool_execution_requests)

    @property
    def tool(self) -> str | None:
        """The name of the tool that a tool result comes from."""
        return self.message.tool_name if isinstance(self.message, ToolExecutionResultMessage) else None

    def says_the_same(self, other: Entry) -> bool:
        """Return whether both entries have equal messages."""
        return self.message == other.message

    def placeholder(self, text: str, window: Window) -> Self:
        """Return the entry that takes the place of this tool result when it is cleared."""
        result = self.message
        assert isinstance(result, ToolExecutionResultMessage), "only tool results are cleared"
        message = ToolExecutionResultMessage(result.id, result.tool_name, text, is_error=result.is_error)
        return type(self)(message, window.cost(message), is_placeholder=True, replaces=self)


def _values(kept: Any) -> list[list[Any]]:
    """Return the lists that one framework keeps among the attributes of a message."""
    return [value for value in kept.values() if isinstance(value, list)] if isinstance(kept, dict) else []
