"""The answers whose prefix, all that stands before them in the memory, is still what they were written behind.

Anthropic binds a model's thinking to its prefix, and may refuse a request with thinking whose prefix has changed. An
addition at the end leaves every prefix as it was. After any other change, the thinking of all messages that were there
is stale. So one number of a conversation is enough: the version of the last such change.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import BigIntegerField, F, Max, Q, Value

from chatmemory.core.messages import ChatMessageType
from chatmemory.database.batches import rows_of
from chatmemory.models import ORDER_STEP, Conversation, Message

__all__ = ["NOT_AT_THE_END", "fresh_rows", "is_at_the_end", "prefix_version_at"]

# Beside a column of 32 bits PostgreSQL's driver may send a number as one of them, and drop the rest.
_ORDER_AT_THE_END = F("position") * Value(ORDER_STEP, BigIntegerField())
_MOVED = Q(type=ChatMessageType.SYSTEM.value) | ~Q(memory_order=_ORDER_AT_THE_END)

NOT_AT_THE_END = Q(position__gt=0) & _MOVED
"""The condition of the rows for which :func:`is_at_the_end` is false."""


def is_at_the_end(row: Message) -> bool:
    """Return whether a row was added at the end of what the model gets.

    APIs take the system message apart, before all others, wherever it stands in the memory.
    """
    return row.position == 0 or (row.type != ChatMessageType.SYSTEM and row.memory_order == row.position * ORDER_STEP)


def prefix_version_at(conversation: Conversation, version: int, *, last: int | None = None) -> int:
    """Return what ``prefix_version`` was at a past version of ``conversation``.

    Args:
        conversation: the conversation.
        version: the version.
        last: the last position that the version had, if it is known: then no message after it is looked at.
    """
    if conversation.prefix_version <= version:
        return conversation.prefix_version
    if conversation.purged_count:
        return version  # it cannot be known of rows that are gone
    rows = rows_of(conversation).order_by()
    left = rows.filter(evicted_in__lte=version).order_by("-evicted_in", "-memory_order")
    latest, behind = left.values_list("evicted_in", "position").first() or (None, 0)
    # What came in a later version than the latest in which a message left stands behind that message. There is one
    # lower bound of the positions, for SQLite would heed any of several.
    came = rows.filter(_MOVED, added_in__lte=version, position__gt=behind)
    if last is not None:
        came = came.filter(position__lte=last)
    return max(latest or 0, came.aggregate(version=Max("added_in"))["version"] or 0)


def fresh_rows(rows: Iterable[Message], prefix_version: int) -> list[int]:
    """Return the indexes of the rows that were added after ``prefix_version``."""
    return [index for index, row in enumerate(rows) if row.added_in > prefix_version]
