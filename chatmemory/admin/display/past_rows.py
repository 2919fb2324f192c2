"""The rows of a past memory, read as far as a page needs them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from chatmemory.admin.display.asked_memory import AskedMemory
from chatmemory.admin.display.bounded_rows import are_too_long, read_bounded, without_text
from chatmemory.admin.display.gauge import Gauge
from chatmemory.admin.display.message import UNREADABLE
from chatmemory.database.reading import fresh_rows, fresh_rows_of_request, prefix_version_at
from chatmemory.models import ORDER_STEP, Message, MessageQuerySet

__all__ = ["PastRows", "found_once"]

# One statement of any database takes so many.
_MOST_POSITIONS = 5000


@dataclass(frozen=True, kw_only=True)
class PastRows:
    """The rows of a memory, in memory order."""

    asked: AskedMemory

    rows: list[Message]
    """All of them; without text, if nobody may read it or it is too long."""

    over: int = 0
    """The number of retained messages that the model does not get, because a limit became smaller."""

    is_long: bool = False
    """Whether the texts are too long to be read, except for those that are shown."""

    @classmethod
    def read(cls, asked: AskedMemory, *, with_text: bool) -> PastRows:
        """Read the rows of the memory that is asked for."""
        found = found_once(asked)
        is_long = with_text and are_too_long(found)
        rows = list(found.defer("native") if with_text and not is_long else without_text(found))
        if is_long or not (asked.is_now and Gauge.of(asked.conversation).is_over):
            return cls(asked=asked, rows=rows, is_long=is_long)
        try:
            fit = {row.pk for row in asked.conversation.memory.fitted().retained}
        except UNREADABLE:
            return cls(asked=asked, rows=rows)  # it cannot be written in any format, and the page says why
        got = [row for row in rows if row.pk in fit]
        return cls(asked=asked, rows=got, over=len(rows) - len(got))

    @property
    def positions(self) -> list[int]:
        """The positions of the rows."""
        return [row.position for row in self.rows]

    def last(self, most: int) -> list[Message]:
        """Return the last rows; of a memory that is too long, read them again, with the beginnings of their texts."""
        last = self.rows[-most:]
        if not self.is_long:
            return last
        messages = self.asked.conversation.messages
        return read_bounded(messages.filter(pk__in=[row.pk for row in last]).order_by("memory_order"))

    def fresh(self) -> list[int]:
        """Return the indexes of the rows before which nothing had changed since they were added."""
        asked = self.asked
        if asked.answer is not None:
            return fresh_rows_of_request(asked.conversation, asked.answer, self.rows)
        if self.over:
            return fresh_rows(self.rows, asked.version)
        return fresh_rows(self.rows, prefix_version_at(asked.conversation, asked.version, last=asked.after))


def found_once(asked: AskedMemory) -> MessageQuerySet:
    """Return the rows by their positions, which are looked for once: the rows are read more than once."""
    rows = asked.rows()
    if asked.is_now:
        return rows
    positions = list(_positions(asked)[: _MOST_POSITIONS + 1])
    if len(positions) > _MOST_POSITIONS:
        return rows
    found: MessageQuerySet = asked.conversation.messages.filter(position__in=positions)
    return found.order_by("memory_order")


def _positions(asked: AskedMemory) -> QuerySet[Message, int]:
    """Return the positions of the rows, which are retained now or left later: an index has both."""
    rows = asked.rows().order_by()
    left = rows.filter(evicted_in__gt=asked.version)
    if asked.after is not None and not asked.conversation.purged_count:
        # No message stands further back than at the end of the memory when it came. The index has this order, too, so
        # of all that left later only the rows that may have been there are read.
        left = left.filter(memory_order__lte=asked.after * ORDER_STEP)
    there = rows.filter(evicted_in__isnull=True).values_list("position", flat=True)
    # Unordered once more: newer versions of Django would order it as the model says, by columns that it has not.
    return there.union(left.values_list("position", flat=True), all=True).order_by()
