"""Where the pages of everything said begin and end.

Pages are counted back from the newest message, so that the last page is a full one. A page that would begin with the
result of a tool begins earlier, with the call.
"""

from __future__ import annotations

from dataclasses import dataclass

from chatmemory.core.messages import ChatMessageType
from chatmemory.models import Conversation

__all__ = ["PER_PAGE", "PageBounds", "beginning"]

PER_PAGE = 50
"""The number of messages on a page, unless a call is moved to its results."""

_MOST_MOVED = 25  # so that a page keeps at least half of its messages


@dataclass(frozen=True, kw_only=True)
class PageBounds:
    """The first and the last position of a page."""

    first: int

    last: int
    """The last position; -1 if nothing was said."""

    @classmethod
    def around(cls, conversation: Conversation, position: int) -> PageBounds:
        """Return the bounds of the page that holds ``position``, or the position nearest to it."""
        total = conversation.next_position
        position = max(0, min(position, total - 1))
        start = total - PER_PAGE * -(-(total - position) // PER_PAGE)
        # The position may belong to the page after, if that one begins earlier.
        begins = _beginnings(conversation, [start, start + PER_PAGE, start + 2 * PER_PAGE])
        first, after = (begins[1], begins[2]) if position >= begins[1] else (begins[0], begins[1])
        return cls(first=first, last=after - 1)


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
