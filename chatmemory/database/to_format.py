"""The memory of a conversation in the format of a model's API."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from chatmemory.core.messages import ChatMessage
from chatmemory.formats.registry import message_format
from chatmemory.formats.rules import Repair
from chatmemory.models import Conversation
from chatmemory.signals import memory_repaired

__all__ = ["written_memory"]


def written_memory(
    conversation: Conversation, messages: Sequence[ChatMessage], fresh: Collection[int], format: str
) -> Any:
    """Return the messages in a format of the registry; send ``memory_repaired`` if they had to be repaired.

    Args:
        conversation: the conversation.
        messages: its memory.
        fresh: the indexes of the messages before which nothing has changed.
        format: the name of the format.

    Raises:
        ValueError: there is no such format.
        UnsupportedContentError: a ``ValueError``; the format cannot express a message.
    """
    repairs: list[Repair] = []
    written = message_format(format).write_memory(messages, fresh, repairs.append)
    if repairs:
        memory_repaired.send_robust(sender=Conversation, conversation=conversation, format=format, repairs=repairs)
    return written
