"""The choice of the kind of lease for a memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from chatmemory.assistant.turns.base import Lease
from chatmemory.assistant.turns.local import LocalLease
from chatmemory.core.memory import ChatMemory

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["before_turn", "memory_of_row", "open_lease", "running_turn"]


def before_turn() -> None:
    """Close the connections that are known to be dead: ``memory()`` and ``system_message()`` may ask the database."""
    if "chatmemory.models" in sys.modules:  # else no memory is in the database, and there may be no Django
        from chatmemory.database.connections import close_broken

        close_broken()


def memory_of_row(given: Any) -> ChatMemory | None:
    """Return the memory of ``given`` if that is a ``Conversation``, else None."""
    if "chatmemory.models" in sys.modules:
        from chatmemory.models import Conversation

        if isinstance(given, Conversation):
            return given.memory
    return None


def running_turn(conversation: Conversation) -> int | None:
    """Return the number of the turn that runs in a conversation now; None if none runs.

    The number is another for each turn of the conversation. A turn whose process was killed runs until its time is up.
    """
    from chatmemory.assistant.turns.lease import ConversationLease

    return ConversationLease(conversation.memory, timeout=0).running()


def open_lease(memory: ChatMemory, timeout: float) -> Lease:
    """Return a lease on the turn of a memory of any kind, not taken yet.

    Args:
        memory: the memory.
        timeout: the seconds after which another may take over, unless the lease is renewed.
    """
    if "chatmemory.models" in sys.modules:
        from chatmemory.assistant.turns.lease import ConversationLease

        if (lease := ConversationLease.of(memory, timeout)) is not None:
            return lease
    return LocalLease(memory)
