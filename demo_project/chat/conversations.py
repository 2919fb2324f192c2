"""The conversations that the chat page starts."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction

from chatmemory import SystemMessage
from chatmemory.models import Conversation

__all__ = ["latest_chat", "start_chat"]

_MARK = "demo-chat"
"""In the metadata of chats that the page started: others are samples."""

_LIMIT = 8
"""Messages of a small window, so that forgetting is seen soon."""

_INSTRUCTIONS = (
    "Answer briefly, and only from these messages. They are all that you remember: what they do not say, you do not "
    "know, or no longer. Use the tool for orders."
)


def start_chat(user: Any, **fields: Any) -> Conversation:
    """Return a new chat of the user, with a small window."""
    with transaction.atomic():
        conversation = Conversation.objects.create(
            owner=user, window="messages", limit=_LIMIT, metadata={_MARK: True}, **fields
        )
        conversation.memory.add(SystemMessage(_INSTRUCTIONS))
    return conversation


def latest_chat(user: Any) -> Conversation:
    """Return the user's latest chat that is no sample; a first one if there is none."""
    chats = Conversation.objects.owned_by(user).filter(metadata__has_key=_MARK).order_by("-updated_at", "-pk")
    try:
        return chats.first() or start_chat(user, memory_id="first-chat")
    except IntegrityError:  # another tab was faster
        return chats[0]
