"""The admin: each conversation with its memory, its evicted messages, and the reasons."""

from __future__ import annotations

from chatmemory.admin.conversations import ConversationAdmin
from chatmemory.admin.messages import MessageAdmin
from chatmemory.admin.token_calibrations import TokenCalibrationAdmin

__all__ = ["ConversationAdmin", "MessageAdmin", "TokenCalibrationAdmin"]
