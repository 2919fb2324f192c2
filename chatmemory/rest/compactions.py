"""The body of a request for a summary, and what is answered about summaries."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from chatmemory.conf import setting
from chatmemory.core.summaries import summary_text
from chatmemory.database.batches import rows_of
from chatmemory.database.clock import UtcNow
from chatmemory.database.operations.compaction import CompactionPlan
from chatmemory.models import MAX_LIMIT, Compaction, Conversation, Origin
from chatmemory.rest.strict import StrictSerializer

__all__ = [
    "OUTCOMES",
    "CompactionSerializer",
    "compaction_of",
    "failures_to_data",
    "is_under_way",
    "last_summary_to_data",
    "plan_to_data",
]


OUTCOMES = ("summarized", "nothing_to_do", "under_way")
"""The outcomes of a request for a summary that did not fail."""


class CompactionSerializer(StrictSerializer):
    """The request for a summary by the project's function, or with one that the client made."""

    keep = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        help_text="The percent of the limit that stays in whole turns, by default 50. The last turn always stays.",
    )
    through = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_LIMIT,
        help_text="The position of the last message that the summary stands for: the end of a turn, and not of the "
        "last one. covers_to of a plan is such a position.",
    )
    text = serializers.CharField(
        required=False, help_text="The summary, which takes in the one before; spaces around it are taken off."
    )

    def validate_text(self, value: str) -> str:
        most = setting("MAX_MESSAGE_CHARS")
        if len(value) > most:
            raise serializers.ValidationError(f"has {len(value)} characters; at most {most} are stored")
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        for name, other in ("through", "text"), ("text", "through"):
            if name in attrs and other not in attrs:
                raise serializers.ValidationError({other: f"missing; a summary of your own has {name} and {other}"})
        if "text" in attrs and "keep" in attrs:
            raise serializers.ValidationError({"keep": "leave it out; through says what stays"})
        return attrs


def plan_to_data(plan: CompactionPlan) -> dict[str, Any]:
    """Return what a summary would stand for, in positions and tokens."""
    return {
        "covers_from": plan.covers_from,
        "covers_to": plan.covers_to,
        "messages": len(plan.messages),
        "tokens": plan.tokens,
        "previous": max(plan.summaries, default=None),
    }


def last_summary_to_data(conversation: Conversation, *, with_words: bool) -> dict[str, Any] | None:
    """Return the latest summary, even if it has left the memory; None if there is none.

    Args:
        conversation: its conversation.
        with_words: whether the answer may have its text.
    """
    row = rows_of(conversation).filter(origin=Origin.SUMMARY).order_by("-position").first()
    if row is None:
        return None
    return {
        "position": row.position,
        "covers_from": row.covers_from,
        "covers_to": row.covers_to,
        "tokens": row.token_count,
        "state": "retained" if row.evicted_in is None else "evicted",
        "text": summary_text(row.message) if with_words else "",
        "created_at": row.created_at,
    }


def failures_to_data(conversation: Conversation, *, with_words: bool) -> dict[str, Any]:
    """Return the failures since the last summary.

    Args:
        conversation: its conversation.
        with_words: whether the answer may have the whole error; else it has its class.
    """
    row = compaction_of(conversation)
    error = row.error if with_words else row.error.partition(":")[0]
    return {"count": row.failures, "failed_at": row.failed_at, "retry_at": row.retry_at, "error": error}


def is_under_way(conversation: Conversation) -> bool:
    """Return whether somebody is making a summary now."""
    rows = Compaction.objects.using(conversation._state.db)
    return rows.filter(conversation=conversation, leased_until__gt=UtcNow()).exists()


def compaction_of(conversation: Conversation) -> Compaction:
    """Return the row of leases and failures; an unsaved one if nobody ever began a summary."""
    row = Compaction.objects.using(conversation._state.db).filter(conversation=conversation).first()
    return row or Compaction(conversation=conversation)
