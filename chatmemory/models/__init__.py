"""The tables."""

from chatmemory.core.window import WindowSettings
from chatmemory.models.branch import Branch
from chatmemory.models.compaction import Compaction
from chatmemory.models.conversation import COUNTERS, DESCRIBED, Conversation, ConversationQuerySet, require_owner
from chatmemory.models.idempotency_key import OWNER_SCOPE, IdempotencyKey
from chatmemory.models.message import (
    EVICTION_REASONS,
    LONGEST_SEARCH,
    ORDER_STEP,
    PINNED,
    STAND_INS,
    TYPES,
    Message,
    MessageQuerySet,
    Origin,
    WrittenBy,
)
from chatmemory.models.token_calibration import TokenCalibration
from chatmemory.models.window_settings import MAX_LIMIT, RESERVED, WINDOW_SETTINGS, WINDOWS

__all__ = [
    "COUNTERS",
    "DESCRIBED",
    "EVICTION_REASONS",
    "LONGEST_SEARCH",
    "MAX_LIMIT",
    "ORDER_STEP",
    "OWNER_SCOPE",
    "PINNED",
    "RESERVED",
    "STAND_INS",
    "TYPES",
    "WINDOWS",
    "WINDOW_SETTINGS",
    "Branch",
    "Compaction",
    "Conversation",
    "ConversationQuerySet",
    "IdempotencyKey",
    "Message",
    "MessageQuerySet",
    "Origin",
    "TokenCalibration",
    "WindowSettings",
    "WrittenBy",
    "require_owner",
]
