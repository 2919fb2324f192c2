"""The summaries on a page of the timeline: what each covers, and which one covers an evicted message.

The number of rows that are read is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import BooleanField, Count, ExpressionWrapper, F, Q, Sum
from django.db.models.functions import Left

from chatmemory.admin.display.message import ShownMessage, shown
from chatmemory.core.entries import EvictionReason
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.connections import UtcNow
from chatmemory.database.operations.compaction_plan import COVERABLE, EVICTED, TAKEN_IN, uncovered
from chatmemory.database.reading import CHARS
from chatmemory.models import STAND_INS, Compaction, Conversation, Message, Origin
from chatmemory.models.branch import BranchTree, current_rows, on_current_branch

MOST_COUNTED = 10_000
"""The most messages among which those that a summary covers are counted."""

_MOST_CARDS = 5
_MOST_LISTED = 10
_BEHIND = 2000  # the messages searched for the summary that covers one before them
_LONGEST_BEGINNING = 161  # a character more than an excerpt has, to know whether there are more


@dataclass(frozen=True, kw_only=True)
class SummaryCard:
    """The messages that a summary covers, as far as their rows are still there."""

    row: Message
    """The summary."""

    is_counted: bool
    """Whether the messages were counted: not if there are too many to do so on a page."""

    count: int = 0
    """The number of messages that it covers and that were kept."""

    turns: int = 0
    """The number of user messages among them."""

    tokens_before: int = 0
    """The tokens of these messages."""

    said_since: int = 0
    """The number of messages said after them and before the summary. Which came while it was made, no row says."""

    originals: list[ShownMessage] = field(default_factory=list)
    """The first few of the messages, without what they say if this reader may not read it."""

    @property
    def left_out(self) -> int:
        """The number of counted messages that are not among ``originals``."""
        return max(0, self.count - len(self.originals))


def uses_summaries(conversation: Conversation) -> bool:
    """Return whether summaries are made of a conversation, so that it matters which messages are in none."""
    return conversation.compact_at is not None or conversation.compacted_to > 0


def is_uncovered(conversation: Conversation, row: Message) -> bool:
    """Return whether a message was evicted for lack of room and no summary covers it."""
    return row.place >= conversation.compacted_to and row.eviction_reason in EVICTED and _is_coverable(row)


def summary_cards(
    conversation: Conversation, rows: list[Message], branches: BranchTree, *, with_text: bool
) -> dict[int, SummaryCard]:
    """Return the cards of those rows that are summaries, by position; of many only of the newest.

    Each card takes two or three statements. The others link to the messages that they cover.
    """
    found: list[Any] = sorted(filter(_is_summary, rows), key=lambda row: row.position)[-_MOST_CARDS:]
    return {row.position: _card(conversation, row, branches, with_text=with_text) for row in found}


def standing_for(
    conversation: Conversation, rows: list[Message], added_in: dict[int, int], branches: BranchTree
) -> dict[int, int]:
    """Return the position of the summary that covers each evicted row, by the row's position.

    Args:
        conversation: the conversation.
        rows: a page, by position.
        added_in: the position of the first row that was added in each of the versions in which ``rows`` left.
        branches: the branches. A summary covers messages of its own branch only.
    """
    summarized = [row for row in rows if row.eviction_reason == EvictionReason.SUMMARIZED.value]
    # A version that takes the place of messages adds the summary, and after it at most placeholders.
    found = {row.position: added_in[row.evicted_in] for row in summarized if row.evicted_in in added_in}
    evicted: list[Any] = [
        row
        for row in rows
        if row.eviction_reason in EVICTED
        and row.place < conversation.compacted_to
        and (_is_coverable(row) or _is_summary(row))
    ]
    summaries: list[Any] = []
    if evicted:
        near = (evicted[0].position, evicted[-1].position + _BEHIND)
        behind = conversation.messages.filter(origin=Origin.SUMMARY, position__range=near, covers_to__isnull=False)
        summaries = list(behind.order_by("position").defer("text", "payload", "native"))
    for row in evicted:
        # Of a summary, all that it covers.
        start, end = (row.covers_from, row.covers_to) if _is_summary(row) else (row.place, row.place)
        later = (
            summary
            for summary in summaries
            if summary.position > row.position
            and summary.covers_to >= end
            and branches.leads_to(row.position, summary.position)
        )
        summary = next(later, None)
        if summary is not None and summary.covers_from <= start and (row.evicted_in or 0) <= summary.added_in:
            found[row.position] = summary.position
    return found


def _card(conversation: Conversation, row: Any, branches: BranchTree, *, with_text: bool) -> SummaryCard:
    first, last = row.covers_from, row.covers_to
    rows: Any
    if branches.went_back and branches.leads_to(row.position, branches.end):
        rows = current_rows(conversation)
    else:
        rows = conversation.messages.alias(place=F("position"))
    covered = COVERABLE & Q(place__range=(first, last), evicted_in__lte=row.added_in, eviction_reason__in=TAKEN_IN)
    # A summary that came back when the conversation did was made earlier.
    was_restored = any(branch.version == row.added_in for branch in branches.branches)
    counts: dict[str, Any] = {}
    is_counted = row.position - first <= MOST_COUNTED
    if is_counted:
        counts = rows.filter(position__range=(first, row.position)).aggregate(
            count=Count("pk", filter=covered),
            turns=Count("pk", filter=covered & Q(type=ChatMessageType.USER.value)),
            tokens_before=Sum("token_count", filter=covered),
            said_since=Count("pk", filter=Q(place__gt=last, origin=Origin.SAID)),
        )
        counts["tokens_before"] = counts["tokens_before"] or 0
        counts["said_since"] = 0 if was_restored else counts["said_since"]
    light = rows.filter(covered).order_by("place").defer("text", "payload", "native")
    if with_text:
        light = light.annotate(beginning=Left("text", _LONGEST_BEGINNING), chars=CHARS)
    originals = [shown(original, with_text=with_text) for original in light[:_MOST_LISTED]]
    return SummaryCard(row=row, is_counted=is_counted, originals=originals, **counts)


def _is_summary(row: Message) -> bool:
    return row.origin == Origin.SUMMARY and row.covers_from is not None and row.covers_to is not None


def _is_coverable(row: Message) -> bool:
    """Return whether a row fulfils the condition ``COVERABLE``."""
    return row.origin not in STAND_INS and row.type != ChatMessageType.SYSTEM.value


_MOST_COUNTED = 1000  # compaction.html has the same number


@dataclass(frozen=True, kw_only=True)
class CompactionStatus:
    """The state of a conversation's summaries for its pages, without the words of any summary."""

    is_used: bool
    """Whether a summary is ever due: the conversation has a ``compact_at``."""

    latest: Message | None
    """The latest summary, without its text; None if there is none, or the memory was cleared since."""

    may_be_due: bool
    """Whether a summary is due, unless there is too little to summarise, which only a plan knows."""

    uncovered: int
    """The number of messages evicted for lack of room and in no summary, at most a thousand."""

    is_running: bool = False
    """Whether a summary is being generated now."""

    failures: int = 0
    """The number of failures since the last summary."""

    failed_at: datetime | None = None

    retry_at: datetime | None = None
    """The time before which no automatic attempt is made; None if it is over."""

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
    here = found.filter(on_current_branch(conversation)).order_by("-position")
    latest: Message | None = here.defer("text", "payload", "native").first()
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
