"""Compaction: a summary takes the place of older turns. It may come late, and if it fails, nothing changes."""

from chatmemory.database.operations.compaction.apply import CoveredError, apply_compaction, apply_text
from chatmemory.database.operations.compaction.compact import compact
from chatmemory.database.operations.compaction.due import UNCOVERED, due_conversations, due_plan
from chatmemory.database.operations.compaction.erase_summaries import erase_summaries
from chatmemory.database.operations.compaction.plan import USUAL_KEEP, CompactionPlan, plan_compaction, uncovered

__all__ = [
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
    "plan_compaction",
    "uncovered",
]
