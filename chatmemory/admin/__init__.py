"""The admin: every conversation with what the model gets of it now, what it no longer gets, and why."""

from __future__ import annotations

from chatmemory.admin.conversations import ConversationAdmin
from chatmemory.admin.messages import MessageAdmin

__all__ = ["ConversationAdmin", "MessageAdmin"]
