"""The state of a conversation's summaries: whether one is due or being made, and what failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q

from chatmemory.admin.display.summaries import uses_summaries
from chatmemory.database.connections import UtcNow
from chatmemory.database.operations.compaction import uncovered
from chatmemory.models import Compaction, Conversation, Message, Origin

__all__ = ["CompactionStatus"]

_MOST_COUNTED = 1000  # compaction.html has the same number


@dataclass(frozen=True, kw_only=True)
class CompactionStatus:
    """The state of a conversation's summaries for its pages, without the words of any summary."""

    is_used: bool
    """Whether a summary is ever due by itself: the conversation has a ``compact_at``."""

    latest: Message | None
    """The latest summary, without what it says; None if there is none, or the memory was cleared since."""

    may_be_due: bool
    """Whether a summary is due by itself, unless there is too little to summarise, which only a plan knows."""

    uncovered: int
    """The number of messages that left for want of room and are in no summary, at most a thousand."""

    is_running: bool = False
    """Whether somebody makes a summary now."""

    failures: int = 0
    """The number of failures since the last summary."""

    failed_at: datetime | None = None

    retry_at: datetime | None = None
    """The time before which no other attempt is made by itself; None if it is over."""

    error: str = ""
    """The last failure: the class of the exception, and its words for those who may read what messages say."""

    @classmethod
    def read(cls, conversation: Conversation, *, with_text: bool) -> CompactionStatus:
        """Read the state of the summaries of a conversation.

        Args:
            conversation: the conversation.
            with_text: whether this reader may read what messages say, which an error may quote.
        """
        lacking = uncovered(conversation)[: _MOST_COUNTED + 1].count() if uses_summaries(conversation) else 0
        return cls(
            is_used=conversation.compact_at is not None,
            latest=_latest(conversation),
            may_be_due=conversation.compact_at is not None and (lacking > 0 or conversation.is_full),
            uncovered=lacking,
            **_attempts(conversation, with_text=with_text),
        )

    @property
    def is_shown(self) -> bool:
        """Whether the page of the conversation has anything to tell."""
        return self.is_used or self.latest is not None or self.is_running or self.failures > 0

    @property
    def is_capped(self) -> bool:
        """Whether there are more than a thousand messages that are in no summary."""
        return self.uncovered > _MOST_COUNTED


def _latest(conversation: Conversation) -> Message | None:
    if not conversation.compacted_to:
        return None
    found = conversation.messages.filter(position__gte=conversation.compacted_to, origin=Origin.SUMMARY)
    latest: Message | None = found.order_by("-position").defer("text", "payload", "native").first()
    return latest


def _attempts(conversation: Conversation, *, with_text: bool) -> dict[str, Any]:
    def now_before(field: str) -> ExpressionWrapper[Q]:
        return ExpressionWrapper(Q((f"{field}__gt", UtcNow())), output_field=BooleanField())

    # The database's clock, by which the others wait.
    rows = Compaction.objects.using(conversation._state.db).filter(conversation=conversation)
    row: Any = rows.annotate(is_running=now_before("leased_until"), waits=now_before("retry_at")).first()
    if row is None:
        return {}
    return {
        "is_running": bool(row.is_running),
        "failures": row.failures,
        "failed_at": row.failed_at,
        "retry_at": row.retry_at if row.waits else None,
        "error": row.error if with_text else row.error.partition(":")[0],
    }
