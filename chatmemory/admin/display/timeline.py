"""Everything said: the messages of a conversation in the order of arrival, a page at a time.

What is read from the database is bounded by the page and the window, never by the length of the history.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict

from chatmemory.admin.display.bounded_rows import read_bounded
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.summary_cards import uses_summaries
from chatmemory.admin.display.timeline_entries import TimelineEntry, history_entries
from chatmemory.core.arguments import whole_number
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.operations.compaction_plan import uncovered
from chatmemory.models import MAX_LIMIT, Conversation

PER_PAGE = 50
"""The number of messages on a page, unless a call is moved to its results."""

_MOST_MOVED = 25  # so that a page keeps at least half of its messages


def page_around(conversation: Conversation, position: int) -> tuple[int, int]:
    """Return the first and the last position of the page that holds ``position``, or the position nearest to it.

    The last is -1 if nothing was said.
    """
    total = conversation.next_position
    position = max(0, min(position, total - 1))
    start = total - PER_PAGE * -(-(total - position) // PER_PAGE)
    # The position may belong to the page after, if that one begins earlier.
    begins = _beginnings(conversation, [start, start + PER_PAGE, start + 2 * PER_PAGE])
    first, after = (begins[1], begins[2]) if position >= begins[1] else (begins[0], begins[1])
    return first, after - 1


def beginning(start: int, answers: set[int]) -> int:
    """Return where a page begins that would begin at ``start``.

    Args:
        start: a position, or the number of all positions.
        answers: the positions of the results of tools.
    """
    near = range(start, max(0, start - _MOST_MOVED) - 1, -1)
    return next((position for position in near if position not in answers), start)


def _beginnings(conversation: Conversation, starts: list[int]) -> list[int]:
    """Return where the pages begin that have these numbers of messages before them."""
    total = conversation.next_position
    inside = [start for start in starts if 0 < start < total]
    nearby = {position for start in inside for position in range(max(0, start - _MOST_MOVED), start + 1)}
    kinds = conversation.messages.filter(position__in=nearby).order_by()
    results = kinds.filter(type=ChatMessageType.TOOL_EXECUTION_RESULT.value)
    answers = set(results.values_list("position", flat=True))
    return [beginning(min(max(0, start), total), answers) for start in starts]


# Messages of a memory, which is shown without pages.
MOST_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One page of everything said."""

    entries: list[TimelineEntry]

    start: int
    """Position at which the page starts; its message may have been deleted."""

    last: int
    """The last position that is on the page."""

    total: int
    """Number of positions."""

    edge: int | None
    """Position at which the memory begins; None if it is empty."""

    has_evicted: bool
    """Whether there are evicted messages that were kept."""

    has_uncovered: bool
    """Whether some of them are in no summary, though summaries are made of this conversation."""

    @classmethod
    def read(cls, conversation: Conversation, query: QueryDict, memory: MemoryMap, *, with_text: bool) -> Timeline:
        """Read the page that holds ``?position=``; by default the last one.

        With ``&whole=`` the message at that position is not cut.
        """
        total = conversation.next_position
        asked = whole_number(query.get("position", ""), most=MAX_LIMIT)
        first, last = page_around(conversation, total - 1 if asked is None else asked)
        whole = whole_number(query.get("whole", ""))
        page = conversation.messages.filter(position__gte=first, position__lte=last).order_by("position")
        rows = read_bounded(page, with_text=with_text, first=whole)
        uses = uses_summaries(conversation)
        return cls(
            entries=history_entries(conversation, rows, memory, with_text=with_text, whole=whole),
            start=first,
            last=last,
            total=total,
            edge=memory.edge,
            has_evicted=conversation.evicted_count > 0 and conversation.messages.evicted().exists(),
            has_uncovered=uses and uncovered(conversation).exists(),
        )

    @property
    def previous(self) -> int | None:
        """A position on the page before; None if there is none."""
        return self.start - 1 if self.start else None

    @property
    def next(self) -> int | None:
        """A position on the page after; None if there is none."""
        return self.last + 1 if self.last + 1 < self.total else None

    @property
    def is_long(self) -> bool:
        """Whether there is more than this page."""
        return self.previous is not None or self.next is not None


def place_to_go(conversation: Conversation, where: str) -> int:
    """Return the position that ``?go=`` asks for: a number, "first-evicted", or "first-uncovered"."""
    position = whole_number(where, most=MAX_LIMIT)
    if position is None:
        left = uncovered(conversation) if where == "first-uncovered" else conversation.messages.evicted()
        position = left.values_list("position", flat=True).first()
    return max(0, min(position or 0, conversation.next_position - 1))
