"""The bounds of a memory that REST works with: one request reads, counts and writes all of it.

Windows do not bound it. Thinking, attributes and media have no tokens, or few, however long they are.
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
    """Raise if the memory is more than one request may read.

    Args:
        conversation: its conversation.
        version: of a past memory; by default the memory is that of now.

    Raises:
        MemoryTooLarge: it is.
    """
    _require(*(read_size(conversation) if version is None else _past_size(conversation, version)))


def require_list_bounded(messages: NewMessages) -> None:
    """Raise if a memory that is written as a whole, and that no window cuts, is more than one request may read.

    Raises:
        MemoryTooLarge: it is.
    """
    _require(len(messages), sum(messages.lengths))


def require_room(conversation: Conversation, messages: NewMessages, *, in_place: bool = False) -> None:
    """Raise if the memory is more than one request may read, once ``messages`` are added and the window has cut it.

    Args:
        conversation: its window.
        messages: to be added.
        in_place: whether they take the place of what is there.

    Raises:
        MemoryTooLarge: it is.
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
    """Return the numbers of messages and characters that a window keeps, but for a system message in front."""
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
        f"A memory of {count} messages and {chars} characters; at most {most} are handled here. Clear the memory, or "
        "use a smaller window from the beginning."
    )
