"""The operations of frameworks: remove messages from a memory, take them back, and read an archive.

The archive of a conversation contains the messages for which the window had no room, and those that were evicted with
them. Messages that were removed for another reason are only in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db.models import Exists, OuterRef, Q

from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.messages import ChatMessage
from chatmemory.database.change import Change, Gone, Target, write
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.operations.plan import plan_eviction
from chatmemory.database.reading import chunks, rows_of
from chatmemory.database.stored_windows import estimator_for, window_of
from chatmemory.models import ORDER_STEP, Message, MessageQuerySet, Origin
from chatmemory.models.branch import on_current_branch
from chatmemory.models.message import open_pin


def archived_now() -> Q:
    """Return the condition for rows in the archive: messages that were evicted for lack of room, or that a summary
    covers, on the current branch, of which no restored copy is in the memory.
    """
    copies = Message.objects.filter(conversation=OuterRef("conversation"), covers_from=OuterRef("position"))
    is_restored = Exists(copies.filter(origin=Origin.RESTORED, evicted_in__isnull=True))
    evicted = Q(eviction_reason__in=EvictionReason.of(Cause.ROOM, Cause.SUMMARY))
    return evicted & ~Q(origin=Origin.SUMMARY) & on_current_branch() & ~Q(is_restored)


def take_out(
    target: Target, choose: Callable[[MessageQuerySet], Iterable[Message]], reason: EvictionReason
) -> list[Message]:
    """Evict the messages of the memory that ``choose`` returns. They stay in the history.

    Unlike a window, this does not evict the results of evicted calls. Messages that exceed the limit and are no longer
    pinned are also evicted.

    Args:
        target: the conversation.
        choose: takes the retained rows in memory order, and returns those to evict. It may be called again with other
            rows.
        reason: the reason of the eviction. ``WINDOW`` archives the messages.

    Returns:
        The evicted rows.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    taken: list[Message] = []

    def work(change: Change) -> None:
        taken[:] = choose(rows_of(change.conversation).retained())
        added: list[Message] = []
        gone: list[Gone] = [(row, reason) for row in taken]
        if any(row.is_pinned for row in taken):  # a pin may have kept other messages in the memory
            added, unfit = plan_eviction(change.conversation, window_of(change.conversation), without=taken)
            gone += unfit
        if gone:
            write(change, added, gone)

    target.change(work)
    return taken


def add_archived(target: Target, messages: Iterable[ChatMessage], native: NativeForms | None = None) -> Change:
    """Add messages to the archive: they are added and evicted at once.

    Raises:
        Conversation.DoesNotExist: the conversation is missing, and must not be created.
        ValueError: databases cannot store a text, or a form is not JSON.
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
    """Remove messages from the archive. They stay in the history, as cleared.

    Args:
        target: the conversation.
        chosen: the condition for the messages to remove; by default all.

    Returns:
        The rows as they were.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    taken: list[Message] = []

    def work(change: Change) -> None:
        rows = rows_of(change.conversation)
        taken[:] = rows.filter(archived_now(), chosen or Q()).order_by("memory_order")
        for chunk in chunks([row.pk for row in taken]):  # MariaDB updates no table that the condition reads
            rows.filter(pk__in=chunk).update(eviction_reason=EvictionReason.CLEARED)

    target.change(work)
    return taken


Remainder = tuple[ChatMessage, NativeForms] | None
"""The part of a message that stays: a shorter message with another framework's form of it, or None."""


def take_back(target: Target, shorten: Callable[[Message], Remainder]) -> Message | None:
    """Evict the last message of the memory, or replace it by a shorter one. It stays in the history.

    Args:
        target: the conversation.
        shorten: takes the row, and returns the part that stays. It may be called again with another row.

    Returns:
        The row as it was; None if the memory was empty.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    taken: list[Message] = []

    def work(change: Change) -> None:
        taken.clear()
        conversation = change.conversation
        row = rows_of(conversation).retained().reverse().first()
        if row is None:
            return
        taken.append(row)
        remainder = shorten(row)
        added = []
        if remainder is not None:
            message, native = remainder
            (left,) = NewMessages([message], native).rows(estimator_for(conversation.model))
            left.position, left.memory_order = conversation.next_position, row.memory_order
            left.origin, left.covers_from, left.covers_to = Origin.REWRITE, row.position, row.position
            if row.is_pinned:
                left.pins = open_pin("", conversation.version + 1)
            conversation.next_position += 1
            added.append(left)
        write(change, added, [(row, EvictionReason.REWRITTEN)], rewritten=True)

    target.change(work)
    return taken[0] if taken else None
