"""Conversations in which tool results were cleared, turns left, and messages are and were pinned."""

from __future__ import annotations

from typing import Any

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory

__all__ = ["conversation_of_turns", "turn"]


def turn(number: int, *, words: int = 60, is_error: bool = False) -> list[ChatMessage]:
    """A turn with one call, whose result is of so many words."""
    return [
        UserMessage(f"question {number}"),
        AiMessage(None, [ToolExecutionRequest(f"call {number}", "look_up", "{}")]),
        ToolExecutionResultMessage(f"call {number}", "look_up", "word " * words, is_error=is_error),
        AiMessage(f"answer {number}"),
    ]


def conversation_of_turns(turns: int = 6, **columns: Any) -> Conversation:
    """A conversation of turns 0, 1 … in a window that has cleared results and given up turns.

    The answer of turn 0 is pinned, the question of turn 1 was.
    """
    settings: dict[str, Any] = {"limit": 330, "low_water": 70, "whole_turns": True, "keep_tool_results": 1}
    conversation: Conversation = ConversationFactory(**settings | columns)
    for number in range(turns):
        conversation.memory.add(*turn(number))
        if number == 1:
            conversation.memory.pin(3)
            conversation.memory.pin(4)
            conversation.memory.unpin(4)
    conversation.refresh_from_db()
    return conversation
