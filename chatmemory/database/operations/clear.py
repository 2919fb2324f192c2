"""Evict every message of a memory."""

from __future__ import annotations

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.core.entries import EvictionReason
from chatmemory.database.change import Change
from chatmemory.database.reading import rows_of
from chatmemory.database.target import Target
from chatmemory.database.write_change import after_commit, write, write_columns
from chatmemory.models import Conversation

__all__ = ["clear"]


def clear(target: Target) -> Change:
    """Evict every message.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """

    def work(change: Change) -> None:
        found = rows_of(change.conversation).retained()
        if setting("KEEP_HISTORY") and not signals.messages_evicted.has_listeners(Conversation):
            found = found.defer("text", "payload", "native")  # who wants to read them does so later
        rows = list(found)
        if rows:
            write(change, [], [(row, EvictionReason.CLEARED) for row in rows])
            after_commit(signals.memory_cleared, change.conversation)
        elif change.conversation.compacted_to < change.conversation.next_position:
            # Everything was evicted, and a summary would bring it back.
            change.conversation.compacted_to = change.conversation.next_position
            write_columns(change.conversation, ["compacted_to"])

    return target.change(work)
