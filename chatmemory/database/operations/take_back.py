"""Take back the last message of a memory, whole or in part."""

from __future__ import annotations

from collections.abc import Callable

from chatmemory.core.entries import EvictionReason
from chatmemory.core.messages import ChatMessage
from chatmemory.database.change import Change, write
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.reading import rows_of
from chatmemory.database.stored_windows import estimator_for
from chatmemory.database.target import Target
from chatmemory.models import Message, Origin
from chatmemory.models.message import open_pin

Remainder = tuple[ChatMessage, NativeForms] | None
"""The part of a message that stays: a shorter message with another framework's form of it, or None."""


def take_back(target: Target, shorten: Callable[[Message], Remainder]) -> Message | None:
    """Evict the last message of the memory, or put a shorter one in its place. History keeps it.

    Args:
        target: the conversation.
        shorten: returns the part of the row that stays, and may be called again with another row.

    Returns:
        the row as it was; None if the memory was empty.

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
