"""The bounds of a memory in REST, where one request reads, counts and writes all of it.

A window does not bound its characters: thinking, attributes and media have few tokens or none, however long they are.
"""

from __future__ import annotations

from django.db.models import Count, Sum

from chatmemory.conf import setting
from chatmemory.core.entries import RESULT_CLEARED
from chatmemory.core.eviction import Retained
from chatmemory.database.batches import CHARS, is_bounded, rows_of
from chatmemory.database.estimators import estimator_for, window_of
from chatmemory.database.operations.compaction.plan import left_size
from chatmemory.database.operations.new_messages import NewMessages
from chatmemory.database.operations.plan import entry_of, placed_rows
from chatmemory.database.operations.rewrite import plan_rewrite
from chatmemory.database.read import read_rows
from chatmemory.database.sql.reads import read_size
from chatmemory.database.sql.writes import chars_of
from chatmemory.models import Conversation
from chatmemory.rest.problems import MemoryTooLarge

__all__ = ["require_bounded", "require_list_bounded", "require_room", "require_summarizable"]


def require_bounded(conversation: Conversation, version: int | None = None) -> None:
    """Check that one request may read a memory.

    Args:
        conversation: its conversation.
        version: the version of a past memory; by default the present memory.

    Raises:
        MemoryTooLarge: it exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
    """
    _require(*(read_size(conversation) if version is None else _past_size(conversation, version)))


def require_list_bounded(messages: NewMessages) -> None:
    """Check that one request may read ``messages``, if they become a memory that no window cuts.

    Raises:
        MemoryTooLarge: as above.
    """
    _require(len(messages), sum(messages.lengths))


def require_room(conversation: Conversation, messages: NewMessages, *, in_place: bool = False) -> None:
    """Check that one request may read the memory after ``messages`` are added and the window has evicted.

    Args:
        conversation: the conversation.
        messages: the messages to add.
        in_place: whether they replace the memory.

    Raises:
        MemoryTooLarge: as above, or the memory is too large already.
    """
    window = window_of(conversation)
    count, chars = (0, 0) if in_place else read_size(conversation)
    most = count + len(messages)
    # A placeholder has fewer tokens than the result whose place it takes, but it may have more characters.
    placeholders = 0 if window.keep_tool_results is None else most * len(RESULT_CLEARED)
    if is_bounded(most, chars + sum(messages.lengths) + placeholders):
        return
    _require(count, chars)  # otherwise it cannot be read here
    new = messages.rows(estimator_for(conversation.model))
    if in_place:
        old = list(rows_of(conversation).retained())
        version = conversation.version + 1
        plan = plan_rewrite(old, new, conversation.next_position, version=version, from_foreign_memory=False)
        memory = Retained.fit([entry_of(row, window) for row in plan.memory], window)
    else:
        memory = Retained.fit([entry_of(row, window) for row in read_rows(conversation)], window)
        for row in new:
            memory.add(entry_of(row, window))
    placed_rows(memory, conversation.next_position, window)  # placeholders have no rows before
    staying = [entry.row for entry in memory.entries()]
    _require(len(staying), sum(map(chars_of, staying)))


def require_summarizable(conversation: Conversation) -> None:
    """Check that one request may read all that a summary would stand for: the memory, and what left it.

    Raises:
        MemoryTooLarge: either exceeds ``MAX_MEMORY_MESSAGES`` or ``MAX_MEMORY_CHARS``.
    """
    require_bounded(conversation)
    if not is_bounded(*left_size(conversation)):
        raise MemoryTooLarge(
            f"Messages that no summary stands for left the memory: more than {setting('MAX_MEMORY_MESSAGES')}, or more "
            f"than {setting('MAX_MEMORY_CHARS')} characters. That is too much for one request. On the server, "
            "conversation.memory.compact() has no bound."
        )


def _past_size(conversation: Conversation, version: int) -> tuple[int, int]:
    rows = rows_of(conversation).in_memory_at(version).order_by()
    found = rows.aggregate(count=Count("pk"), chars=Sum(CHARS))
    return found["count"], found["chars"] or 0


def _require(count: int, chars: int) -> None:
    if is_bounded(count, chars):
        return
    most = f"{setting('MAX_MEMORY_MESSAGES')} messages and {setting('MAX_MEMORY_CHARS')} characters"
    raise MemoryTooLarge(
        f"The memory has, or would have, {count} messages and {chars} characters; at most {most} are allowed. "
        "Clear the memory, or create the conversation with a smaller window."
    )
