"""A past memory as a page shows it: its messages, the answer made from it, and what it had no longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Max, Min

from chatmemory.admin.display.asked_memory import AskedMemory
from chatmemory.admin.display.bounded_rows import read_bounded, without_text
from chatmemory.admin.display.entries import TimelineEntry, memory_entries
from chatmemory.admin.display.memory_gaps import Gaps, newest_missing
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.memory_view import with_brief_front
from chatmemory.admin.display.message import shown
from chatmemory.admin.display.past_rows import PastRows
from chatmemory.admin.display.position_ranges import position_ranges
from chatmemory.admin.display.strip import MOST_BARS, Strip
from chatmemory.admin.display.timeline import MOST_SHOWN
from chatmemory.database.reading import ANSWERS, lost_with_answer
from chatmemory.models import Conversation, Message, MessageQuerySet

__all__ = ["AnswersAround", "answers_around", "shown_memory"]

_MOST_GONE = 60  # bars of messages that were gone
_MOST_NAMED = 5

# Positions in which the next answer is looked for.
_NEAR = 1000


@dataclass(frozen=True, kw_only=True)
class AnswersAround:
    """The positions of the answers before and after a moment; None where none is near."""

    previous: int | None
    next: int | None


def answers_around(conversation: Conversation, asked: AskedMemory) -> AnswersAround:
    """Return the answers before and after the answer that is asked for, or the last message that is known."""
    at = asked.answer.position if asked.answer is not None else asked.after
    at = -1 if at is None else at
    answers = conversation.messages.filter(ANSWERS).values_list("position", flat=True)
    before, include = answers.filter(position__gte=at - _NEAR), asked.answer is None
    earlier = before.filter(position__lte=at) if include else before.filter(position__lt=at)
    later = answers.filter(position__gt=at, position__lte=at + _NEAR)
    return AnswersAround(previous=earlier.order_by("-position").first(), next=later.order_by("position").first())


def shown_memory(past: PastRows, *, with_text: bool) -> dict[str, Any]:
    """Return what the page says of the memory."""
    asked, rows = past.asked, past.rows
    end = asked.after + 1 if asked.after is not None else 0
    missing = _read(asked, newest_missing(end, past.positions, _MOST_GONE), with_text=with_text)
    memory = MemoryMap.of((row.position, row.type, row.token_count) for row in rows)
    entries = memory_entries(past.last(MOST_SHOWN), memory, with_text=with_text, version=asked.version)
    tokens = sum(row.token_count for row in rows)
    return {
        "entries": with_brief_front(entries, memory),
        "answer": _answer_entry(asked, tokens, with_text=with_text),
        "left_out": max(0, len(rows) - MOST_SHOWN),
        "count": len(rows),
        "positions": position_ranges(row.position for row in rows),
        "memory_tokens": tokens,
        "over": past.over,
        "lacks_evicted": max(end, asked.version) > 0 and not asked.is_now and asked.conversation.purged_count > 0,
        "gaps": Gaps.before(end, rows, {row.position for row in missing if row.synthetic}),
        "last_gone": [shown(row, with_text=with_text) for row in missing if not row.synthetic][-_MOST_NAMED:],
        "unsure": _came_and_left(asked),
        "strip": _strip([*missing, *(entry.message.row for entry in entries)], memory, with_text=with_text),
    }


def _read(asked: AskedMemory, positions: list[int], *, with_text: bool) -> list[Message]:
    rows = asked.conversation.messages.filter(position__in=positions).order_by("position")
    return read_bounded(rows) if with_text else list(without_text(rows))


def _answer_entry(asked: AskedMemory, before: int, *, with_text: bool) -> TimelineEntry | None:
    """Return the entry of the answer, as it was when it was written; None if a version is asked for.

    Args:
        asked: what is asked for.
        before: the tokens of the request.
        with_text: whether this reader may read what the answer says.
    """
    if asked.answer is None:
        return None
    rows: MessageQuerySet = asked.conversation.messages.filter(pk=asked.answer.pk)
    read = read_bounded(rows) if with_text else list(without_text(rows))
    alone = MemoryMap(edge=None, totals={asked.answer.position: before + asked.answer.token_count})
    return next(iter(memory_entries(read, alone, with_text=with_text, version=asked.answer.added_in)), None)


def _came_and_left(asked: AskedMemory) -> tuple[int, int] | None:
    """Return the first and the last position of what came and left in the answer's own change; None if nothing did."""
    if asked.answer is None:
        return None
    lost = lost_with_answer(asked.answer).order_by().aggregate(first=Min("position"), last=Max("position"))
    return None if lost["first"] is None else (lost["first"], lost["last"])


def _strip(rows: list[Message], memory: MemoryMap, *, with_text: bool) -> Strip:
    in_order = sorted(rows, key=lambda row: row.position)[-MOST_BARS:]
    return Strip.of(in_order, set(memory.totals), memory.edge, with_text=with_text)
