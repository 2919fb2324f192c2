"""Take messages out of a memory, and keep an archive, for frameworks that have one.

The archive of a conversation has the messages that had no room in its window, and those that left with them. Messages
that were taken out for another reason are in the history only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db.models import Q

from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.messages import ChatMessage
from chatmemory.database.change import Change, Gone, write
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.operations.plan import plan_eviction
from chatmemory.database.reading import rows_of
from chatmemory.database.stored_windows import estimator_for, window_of
from chatmemory.database.target import Target
from chatmemory.models import ORDER_STEP, Message, MessageQuerySet, Origin

ARCHIVED = Q(eviction_reason__in=EvictionReason.of(Cause.ROOM, Cause.SUMMARY)) & ~Q(origin=Origin.SUMMARY)
"""The condition of the rows in the archive: what left for want of room, and what a summary stands for."""


def take_out(
    target: Target, choose: Callable[[MessageQuerySet], Iterable[Message]], reason: EvictionReason
) -> list[Message]:
    """Evict the messages of the memory that ``choose`` returns. The history keeps them.

    Unlike a window, this takes no tool results along. What was over the limit only because they were pinned leaves.

    Args:
        target: the conversation.
        choose: is called with the retained rows in memory order, and may be called again with other rows.
        reason: why they leave. ``WINDOW`` archives them.

    Returns:
        the rows that left.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    taken: list[Message] = []

    def work(change: Change) -> None:
        taken[:] = choose(rows_of(change.conversation).retained())
        added: list[Message] = []
        gone: list[Gone] = [(row, reason) for row in taken]
        if any(row.is_pinned for row in taken):  # which may have kept others in the memory
            added, unfit = plan_eviction(change.conversation, window_of(change.conversation), without=taken)
            gone += unfit
        if gone:
            write(change, added, gone)

    target.change(work)
    return taken


def add_archived(target: Target, messages: Iterable[ChatMessage], native: NativeForms | None = None) -> Change:
    """Add messages to the archive: they were said, and are evicted at once.

    Raises:
        Conversation.DoesNotExist: the conversation is missing, and must not be made.
        ValueError: a text that no database can hold, or a form that is no JSON.
    """
    new = NewMessages.of(messages, native)

    def work(change: Change) -> None:
        conversation = change.conversation
        rows = new.rows(estimator_for(conversation.model))
        for row in rows:
            row.position = conversation.next_position
            row.memory_order = row.position * ORDER_STEP
            conversation.next_position += 1
        write(change, rows, [(row, EvictionReason.WINDOW) for row in rows])

    return target.change(work)


def empty_archive(target: Target, chosen: Q | None = None) -> list[Message]:
    """Take messages out of the archive. They stay in the history, as cleared.

    Args:
        target: the conversation.
        chosen: the condition of those that go; by default all.

    Returns:
        the rows as they were.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    taken: list[Message] = []

    def work(change: Change) -> None:
        archived = rows_of(change.conversation).filter(ARCHIVED, chosen or Q())
        taken[:] = archived.order_by("memory_order")
        archived.update(eviction_reason=EvictionReason.CLEARED)

    target.change(work)
    return taken
