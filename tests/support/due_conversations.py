"""Conversations in which a summary is due."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory

__all__ = ["SUMMARY", "BlockedSummarizer", "due_conversation", "texts"]

SUMMARY = "They count trains."


def due_conversation(turns: int = 8, **columns: Any) -> Conversation:
    """A conversation of turns with about 200 tokens each, summarised at the half of 2,000."""
    settings: dict[str, Any] = {"window": "tokens", "limit": 2000, "compact_at": 50}
    conversation: Conversation = ConversationFactory(**settings | columns)
    for number in range(turns):
        conversation.memory.add(UserMessage(f"Question {number}: {'train ' * 90}"))
        conversation.memory.add(AiMessage(f"Answer {number}: {'train ' * 90}"))
    return conversation


def texts(conversation: Conversation) -> list[str]:
    """The texts of the memory."""
    return [message.text or "" for message in conversation.memory.messages()]


class BlockedSummarizer:
    """A summarizer that says when it was asked, and answers when it may."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.covered: list[tuple[int, str | None]] = []

    def __call__(self, messages: Sequence[ChatMessage], previous: str | None) -> str:
        self.covered.append((len(messages), previous))
        self.asked.set()
        assert self.may_answer.wait(60)
        return SUMMARY
