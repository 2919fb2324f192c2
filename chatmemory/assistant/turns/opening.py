"""The turn of a memory of any kind."""

from __future__ import annotations

import sys

from chatmemory.assistant.turns.local import LocalTurn
from chatmemory.assistant.turns.turn import Turn
from chatmemory.core.memory import ChatMemory

__all__ = ["open_turn"]


def open_turn(memory: ChatMemory, timeout: float) -> Turn:
    """The turn of a memory, not taken yet.

    Args:
        memory: of any kind.
        timeout: seconds after which another may take over, if this one does not renew.
    """
    if "chatmemory.models" in sys.modules:  # else no memory can be one of Django's
        from chatmemory.assistant.turns.conversation import ConversationTurn

        if (turn := ConversationTurn.of(memory, timeout)) is not None:
            return turn
    return LocalTurn(memory)
