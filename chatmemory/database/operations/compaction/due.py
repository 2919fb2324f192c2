"""The conversations in which a summary is due."""

from __future__ import annotations

from django.db.models import BigIntegerField, Exists, F, OuterRef, Q
from django.db.models.functions import Cast

from chatmemory.core.window import WindowKind
from chatmemory.database.connections import UtcNow
from chatmemory.database.operations.compaction.plan import (
    COVERABLE,
    EVICTED,
    USUAL_KEEP,
    CompactionPlan,
    plan_compaction,
)
from chatmemory.models import Conversation, ConversationQuerySet, Message

__all__ = ["UNCOVERED", "due_conversations", "due_plan", "is_due"]

_EVICTED_FOR_ROOM = Q(eviction_reason__in=EVICTED) & COVERABLE

UNCOVERED = Q(position__gte=F("conversation__compacted_to")) & _EVICTED_FOR_ROOM
"""The condition that a message left the memory for want of room, and that no summary stands for it."""

_LIMIT = Cast("limit", BigIntegerField())  # a product with the column itself may be larger than it holds
_IS_FULL = Q(window=WindowKind.TOKENS.value, retained_tokens__gte=_LIMIT * F("compact_at") / 100) | Q(
    window=WindowKind.MESSAGES.value, retained_count__gte=_LIMIT * F("compact_at") / 100
)


def due_conversations(conversations: ConversationQuerySet) -> ConversationQuerySet:
    """Return the conversations in which a summary may be due: :func:`due_plan` knows.

    Those where a summary failed a moment ago, or is being made, are not among them.
    """
    evicted = Message.objects.filter(
        _EVICTED_FOR_ROOM, conversation=OuterRef("pk"), position__gte=OuterRef("compacted_to")
    )
    waits = Q(compaction__retry_at__gt=UtcNow()) | Q(compaction__leased_until__gt=UtcNow())
    return conversations.filter(_IS_FULL | Exists(evicted), compact_at__isnull=False).exclude(waits)


def is_due(conversation: Conversation, plan: CompactionPlan | None) -> bool:
    """Return whether the summary that was planned is due, if there is anything to summarise."""
    if plan is None or conversation.compact_at is None:
        return False
    return plan.has_evicted or conversation.is_full


def due_plan(conversation: Conversation, *, keep: int = USUAL_KEEP) -> CompactionPlan | None:
    """Return the plan of the summary that is due in a conversation; None if none is.

    One is due if the memory has reached ``compact_at`` percent of its limit, or the window has evicted messages that no
    summary stands for, and the range is worth it.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        ValueError: ``keep`` is no percentage.
    """
    if conversation.compact_at is None:
        return None
    plan = plan_compaction(conversation, keep=keep)
    return plan if is_due(conversation, plan) else None
