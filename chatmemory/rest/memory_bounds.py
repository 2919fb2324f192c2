"""The bounds of a memory in REST, where one request reads, counts and writes all of it.

A window does not bound its characters: thinking, attributes and media have few tokens or none, however long they are.
"""

from __future__ import annotations

from chatmemory.conf import setting
from chatmemory.database.operations.compaction import left_size
from chatmemory.database.reading import request_bound
from chatmemory.models import Conversation
from chatmemory.rest.problems import MemoryTooLarge

__all__ = ["require_bounded", "require_summarizable"]


def require_bounded(conversation: Conversation, version: int | None = None) -> None:
    """Check that one request may read a memory.

    Args:
        conversation: its conversation.
        version: the version of a past memory; by default the present memory.

    Raises:
        MemoryTooLargeError: it exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
    """
    request_bound().check(*conversation.memory.size(version))


def require_summarizable(conversation: Conversation) -> None:
    """Check that one request may read all that a summary would stand for: the memory, and what left it.

    Raises:
        MemoryTooLargeError: the memory exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
        MemoryTooLarge: what left it does.
    """
    require_bounded(conversation)
    if not request_bound().allows(*left_size(conversation)):
        raise MemoryTooLarge(
            "Messages that no summary stands for left the memory: more than %(messages)s, or more than %(chars)s "
            "characters. That is too much for one request. On the server, conversation.memory.compact() has no bound.",
            messages=setting("MAX_MEMORY_MESSAGES"),
            chars=setting("MAX_MEMORY_CHARS"),
        )
