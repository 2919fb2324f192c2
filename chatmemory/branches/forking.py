"""Copy a conversation as it was at a message."""

from __future__ import annotations

from typing import Any

from chatmemory.models import Conversation


def fork(conversation: Conversation, *, at: int, **fields: Any) -> Conversation:
    """See ``methods.fork``."""
    raise NotImplementedError
