"""What is in the database."""

from chatmemory.models.conversation import BOUNDS, COUNTERS, MAX_LIMIT, WINDOWS, Conversation
from chatmemory.models.idempotency_key import IdempotencyKey
from chatmemory.models.message import EVICTION_REASONS, TYPES, Message

__all__ = [
    "BOUNDS",
    "COUNTERS",
    "EVICTION_REASONS",
    "MAX_LIMIT",
    "TYPES",
    "WINDOWS",
    "Conversation",
    "IdempotencyKey",
    "Message",
]
