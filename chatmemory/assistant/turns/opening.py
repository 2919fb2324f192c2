"""The choice of the kind of turn for a memory."""

from __future__ import annotations

import sys

from chatmemory.assistant.turns.base import Turn
from chatmemory.assistant.turns.local import LocalTurn
from chatmemory.core.memory import ChatMemory

__all__ = ["before_turn", "open_turn"]


def before_turn() -> None:
    """Close the connections that are known to be dead: ``memory()`` and ``system_message()`` may ask the database."""
    if "chatmemory.models" in sys.modules:  # else no memory is in the database, and there may be no Django
        from chatmemory.database.connections import close_broken

        close_broken()


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
