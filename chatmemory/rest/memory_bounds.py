"""The bounds of a memory in REST, where one request reads, counts and writes all of it.

A window does not bound its characters: thinking, attributes and media have few tokens or none, however long they are.
"""

from __future__ import annotations

from chatmemory.conf import setting
from chatmemory.core.entries import RESULT_CLEARED
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.operations.compaction import left_size
from chatmemory.database.reading import request_bound
from chatmemory.models import Conversation
from chatmemory.rest.problems import MemoryTooLarge

__all__ = ["require_bounded", "require_room", "require_summarizable"]


def require_bounded(conversation: Conversation, version: int | None = None) -> None:
    """Check that one request may read a memory.

    Args:
        conversation: its conversation.
        version: the version of a past memory; by default the present memory.

    Raises:
        MemoryTooLargeError: it exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
    """
    request_bound().check(*conversation.memory.size(version))


def require_room(conversation: Conversation, messages: NewMessages) -> None:
    """Check that one request may read the memory after a turn has added ``messages``.

    Raises:
        MemoryTooLargeError: as above, or the memory is too large already.
    """
    bound = request_bound()
    count, chars = conversation.memory.size()
    most = count + len(messages)
    # A placeholder has fewer tokens than the result whose place it takes, but it may have more characters.
    placeholders = 0 if conversation.keep_tool_results is None else most * len(RESULT_CLEARED)
    if bound.allows(most, chars + sum(messages.lengths) + placeholders):
        return
    bound.check(count, chars)  # otherwise it cannot be read here
    after = conversation.memory.try_window(messages=messages)
    bound.check(len(after.retained), after.chars)


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
