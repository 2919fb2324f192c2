"""The choice of the kind of turn for a memory."""

from __future__ import annotations

import sys

from chatmemory.assistant.turns.base import Turn
from chatmemory.assistant.turns.local import LocalTurn
from chatmemory.core.memory import ChatMemory

__all__ = ["open_turn"]


def open_turn(memory: ChatMemory, timeout: float) -> Turn:
    """Return a turn for a memory of any kind, not taken yet.

    Args:
        memory: the memory.
        timeout: the seconds after which another may take over, unless the turn is renewed.
    """
    if "chatmemory.models" in sys.modules:  # else no memory can be one of Django's
        from chatmemory.assistant.turns.lease import ConversationTurn

        if (turn := ConversationTurn.of(memory, timeout)) is not None:
            return turn
    return LocalTurn(memory)
