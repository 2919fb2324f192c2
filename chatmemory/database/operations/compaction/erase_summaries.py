"""Erase the summaries that were made from messages that are erased."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Max

from chatmemory.core.entries import EvictionReason
from chatmemory.database.batches import chunks, rows_of
from chatmemory.database.operations.compaction.plan import CONTINUED, EVICTED
from chatmemory.models import Conversation, Message, Origin

__all__ = ["erase_summaries"]

_Source = tuple[int, int | None, str]
"""The position of a message that left, the version in which it left, and the reason."""


def erase_summaries(conversation: Conversation, keys: Sequence[int]) -> int:
    """Delete every summary, retained or evicted, that stands for one of the messages with the primary keys ``keys``.

    The next summary takes in the other messages for which it stood.

    Args:
        conversation: the locked conversation; its counters are changed and not saved.
        keys: of rows that are being deleted in the same transaction.

    Returns:
        the number of deleted summaries, with those that are among ``keys``.
    """
    if not conversation.compacted_to:
        return 0
    summaries = list(rows_of(conversation).filter(origin=Origin.SUMMARY).defer("text", "payload", "native"))
    if not summaries:
        return 0
    sources = _sources(conversation, keys)
    gone = [row for row in summaries if any(_was_made_from(row, source) for source in sources)]
    if not gone:
        return 0
    summaries.sort(key=lambda row: row.position)
    _go_back(conversation, summaries, {row.pk for row in gone})
    for chunk in chunks([row.pk for row in gone]):
        rows_of(conversation).filter(pk__in=chunk).delete()
    retained = [row for row in gone if row.evicted_in is None]
    if retained:
        conversation.version += 1
        conversation.prefix_version = conversation.version
        conversation.retained_count -= len(retained)
        conversation.retained_tokens -= sum(row.token_count for row in retained)
    return len(gone)


def _sources(conversation: Conversation, keys: Sequence[int]) -> list[_Source]:
    found: list[_Source] = []
    for chunk in chunks(list(keys)):
        rows = rows_of(conversation).filter(pk__in=chunk).exclude(origin=Origin.SUMMARY)
        found += rows.values_list("position", "evicted_in", "eviction_reason")
    return found


def _was_made_from(summary: Message, source: _Source) -> bool:
    """Return whether the text of a message may be in a summary.

    What somebody took out before the summary came is not in it. What was pinned while it was being made is.
    """
    position, left, reason = source
    first, last = _range_of(summary)
    if not first <= position <= last:
        return False
    return reason in (*EVICTED, EvictionReason.SUMMARIZED) or left is None or left > summary.added_in


def _go_back(conversation: Conversation, summaries: list[Message], gone: set[int]) -> None:
    """Let the next summary go on behind the latest one that stays, or where the range of the deleted one begins.

    Args:
        conversation: the conversation; its counter ``compacted_to`` is changed.
        summaries: its summaries, by position.
        gone: the primary keys of those that are being deleted.
    """
    latest = summaries[-1]
    if latest.pk not in gone or latest.position < conversation.compacted_to:
        return  # those that are deleted are of the past
    if latest.evicted_in is not None and latest.eviction_reason not in CONTINUED:
        _stay_behind_taken_out(conversation)
        return
    first, last = _range_of(latest)
    stay = [row for row in summaries if row.pk not in gone and row.eviction_reason in CONTINUED]
    ends = [end for begin, end in map(_range_of, stay) if first <= begin and end <= last]
    conversation.compacted_to = min(conversation.compacted_to, ends[-1] + 1 if ends else first)


def _stay_behind_taken_out(conversation: Conversation) -> None:
    """Let no later summary bring back what one stood for that somebody took out of the memory."""
    told = rows_of(conversation).filter(eviction_reason=EvictionReason.SUMMARIZED.value)
    last = told.filter(position__gte=conversation.compacted_to).aggregate(last=Max("position"))["last"]
    if last is not None:
        conversation.compacted_to = last + 1


def _range_of(summary: Message) -> tuple[int, int]:
    """Return the positions of the first and the last message that a summary stands for."""
    assert summary.covers_from is not None, "every summary has a range"
    assert summary.covers_to is not None, "every summary has a range"
    return summary.covers_from, summary.covers_to
