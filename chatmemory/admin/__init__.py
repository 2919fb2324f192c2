"""The admin: every conversation with what the model gets of it now, what it no longer gets, and why."""

from __future__ import annotations

from chatmemory.admin.conversations import ConversationAdmin
from chatmemory.admin.messages import MessageAdmin
from chatmemory.admin.token_calibrations import TokenCalibrationAdmin

__all__ = ["ConversationAdmin", "MessageAdmin", "TokenCalibrationAdmin"]
