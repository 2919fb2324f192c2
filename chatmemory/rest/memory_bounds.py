"""The bounds of a memory in REST, where one request reads, counts and writes all of it.

A window does not bound its characters: thinking, attributes and media have few tokens or none, however long they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from django.db.models import Count, Sum

from chatmemory.conf import setting
from chatmemory.core.window import WindowKind
from chatmemory.database.batches import CHARS, rows_of
from chatmemory.database.estimators import estimator_for, window_of
from chatmemory.database.operations.new_messages import NewMessages
from chatmemory.database.sql.reads import read_size
from chatmemory.models import Conversation
from chatmemory.rest.problems import MemoryTooLarge

__all__ = ["require_bounded", "require_list_bounded", "require_room"]


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
        MemoryTooLarge: as above.
    """
    count, chars = (0, 0) if in_place else read_size(conversation)
    if _is_bounded(count + len(messages), chars + sum(messages.lengths)):
        return
    window = window_of(conversation)
    counts = messages.token_counts(estimator_for(conversation.model))
    new = [*zip(counts, messages.lengths, strict=True)]
    there = rows_of(conversation).retained()
    old = (
        (there.none() if in_place else there)
        .reverse()
        .values_list("token_count", CHARS)[: setting("MAX_MEMORY_MESSAGES") + 1]
    )
    in_tokens = window.kind is WindowKind.TOKENS
    _require(*_staying(chain(reversed(new), old), window.limit - window.overhead, in_tokens=in_tokens))


def _past_size(conversation: Conversation, version: int) -> tuple[int, int]:
    rows = rows_of(conversation).in_memory_at(version).order_by()
    found = rows.aggregate(count=Count("pk"), chars=Sum(CHARS))
    return found["count"], found["chars"] or 0


def _staying(newest_first: Iterable[tuple[int, int]], room: int, *, in_tokens: bool) -> tuple[int, int]:
    """Return the numbers of messages and characters that a window keeps, without a system message in front."""
    count = chars = 0
    for tokens, length in newest_first:
        room -= tokens if in_tokens else 1
        if room < 0:
            break
        count += 1
        chars += length
    return count, chars


def _is_bounded(count: int, chars: int) -> bool:
    return bool(count <= setting("MAX_MEMORY_MESSAGES") and chars <= setting("MAX_MEMORY_CHARS"))


def _require(count: int, chars: int) -> None:
    if _is_bounded(count, chars):
        return
    most = f"{setting('MAX_MEMORY_MESSAGES')} messages and {setting('MAX_MEMORY_CHARS')} characters"
    raise MemoryTooLarge(
        f"The memory has, or would have, {count} messages and {chars} characters; at most {most} are allowed. "
        "Clear the memory, or create the conversation with a smaller window."
    )
