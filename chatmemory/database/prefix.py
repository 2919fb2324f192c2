"""The answers whose prefix, all that stands before them in the memory, is still what they were written behind.

Anthropic binds a model's thinking to its prefix, and may refuse a request with thinking whose prefix has changed. An
addition at the end leaves every prefix as it was. After any other change, the thinking of all messages that were there
is stale. So one number of a conversation is enough: the version of the last such change.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F, Max, Q

from chatmemory.core.messages import ChatMessageType
from chatmemory.database.batches import rows_of
from chatmemory.models import ORDER_STEP, Conversation, Message

__all__ = ["NOT_AT_THE_END", "fresh_rows", "is_at_the_end", "prefix_version_at"]

NOT_AT_THE_END = Q(position__gt=0) & (
    Q(type=ChatMessageType.SYSTEM.value) | ~Q(memory_order=F("position") * ORDER_STEP)
)
"""The condition of the rows for which :func:`is_at_the_end` is false."""


def is_at_the_end(row: Message) -> bool:
    """Return whether a row was added at the end of what the model gets.

    APIs take the system message apart, before all others, wherever it stands in the memory.
    """
    return row.position == 0 or (row.type != ChatMessageType.SYSTEM and row.memory_order == row.position * ORDER_STEP)


def prefix_version_at(conversation: Conversation, version: int) -> int:
    """Return what ``prefix_version`` was at a past version of ``conversation``."""
    if conversation.prefix_version <= version:
        return conversation.prefix_version
    if conversation.purged_count:
        return version  # it cannot be known of rows that are gone
    found = rows_of(conversation).aggregate(
        left=Max("evicted_in", filter=Q(evicted_in__lte=version)),
        came=Max("added_in", filter=Q(added_in__lte=version) & NOT_AT_THE_END),
    )
    return max(found["left"] or 0, found["came"] or 0)


def fresh_rows(rows: Iterable[Message], prefix_version: int) -> list[int]:
    """Return the indexes of the rows that were added after ``prefix_version``."""
    return [index for index, row in enumerate(rows) if row.added_in > prefix_version]
