"""The tables."""

from chatmemory.models.conversation import (
    COUNTERS,
    MAX_LIMIT,
    WINDOW_SETTINGS,
    WINDOWS,
    Conversation,
    ConversationQuerySet,
    WindowSettings,
)
from chatmemory.models.idempotency_key import IdempotencyKey
from chatmemory.models.message import EVICTION_REASONS, LONGEST_SEARCH, ORDER_STEP, TYPES, Message, MessageQuerySet
from chatmemory.models.owners import require_owner

__all__ = [
    "COUNTERS",
    "EVICTION_REASONS",
    "LONGEST_SEARCH",
    "MAX_LIMIT",
    "ORDER_STEP",
    "TYPES",
    "WINDOWS",
    "WINDOW_SETTINGS",
    "Conversation",
    "ConversationQuerySet",
    "IdempotencyKey",
    "Message",
    "MessageQuerySet",
    "WindowSettings",
    "require_owner",
]
