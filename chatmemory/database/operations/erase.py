"""Delete a conversation and everything in it."""

from __future__ import annotations

from dataclasses import replace

from chatmemory.database.change import Change
from chatmemory.database.key import Key
from chatmemory.database.target import Target
from chatmemory.models import Conversation

__all__ = ["erase"]


def erase(target: Target) -> None:
    """Delete the conversation and everything in it.

    Raises:
        Conversation.DoesNotExist: the conversation is missing.
    """
    known = target.instance
    if known is not None:
        # Programs that use stores lock by the memory ID. Locking by the primary key could deadlock with them on
        # MariaDB, whose DELETE locks the entry of the memory ID after the row.
        target = replace(target, key=Key.whole(known, target.key.database), instance=None)

    def work(change: Change) -> None:
        if known is not None and change.conversation.pk != known.pk:
            raise Conversation.DoesNotExist("the conversation has been erased")
        change.conversation.delete(using=target.key.database)

    target.change(work)
