"""The choice of the kind of turn for a memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from chatmemory.assistant.turns.base import Turn
from chatmemory.assistant.turns.local import LocalTurn
from chatmemory.core.memory import ChatMemory

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["before_turn", "memory_of_row", "open_turn", "running_turn"]


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
    from chatmemory.assistant.turns.lease import ConversationTurn

    return ConversationTurn(conversation.memory, timeout=0).running()


def open_turn(memory: ChatMemory, timeout: float) -> Turn:
    """Return a turn for a memory of any kind, not taken yet.

    Args:
        memory: the memory.
        timeout: the seconds after which another may take over, unless the turn is renewed.
    """
    if "chatmemory.models" in sys.modules:
        from chatmemory.assistant.turns.lease import ConversationTurn

        if (turn := ConversationTurn.of(memory, timeout)) is not None:
            return turn
    return LocalTurn(memory)
