"""Compaction: a summary takes the place of older turns. It may come late, and if it fails, nothing changes."""

from chatmemory.database.operations.compaction.compact import (
    UNCOVERED,
    CoveredError,
    apply_compaction,
    apply_text,
    compact,
    due_conversations,
    due_plan,
    error_text,
    is_due,
)
from chatmemory.database.operations.compaction.erase_summaries import erase_summaries
from chatmemory.database.operations.compaction.plan import (
    COVERABLE,
    EVICTED,
    TAKEN_IN,
    USUAL_KEEP,
    CompactionPlan,
    is_summarizable,
    left_size,
    plan_compaction,
    uncovered,
)

__all__ = [
    "COVERABLE",
    "EVICTED",
    "TAKEN_IN",
    "UNCOVERED",
    "USUAL_KEEP",
    "CompactionPlan",
    "CoveredError",
    "apply_compaction",
    "apply_text",
    "compact",
    "due_conversations",
    "due_plan",
    "erase_summaries",
    "error_text",
    "is_due",
    "is_summarizable",
    "left_size",
    "plan_compaction",
    "uncovered",
]
