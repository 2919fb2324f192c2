"""Erase the summaries that were made from messages that are erased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chatmemory.core.entries import EvictionReason
from chatmemory.database.batches import chunks, rows_of
from chatmemory.database.operations.compaction.plan import EVICTED
from chatmemory.models import Conversation, Origin

__all__ = ["erase_summaries"]


def erase_summaries(conversation: Conversation, keys: Sequence[int]) -> int:
    """Delete every summary that stands for one of the messages with the primary keys ``keys``, evicted or not.

    What the other messages said may go into the next summary.

    Args:
        conversation: the locked conversation; its counters are changed and not saved.
        keys: of rows that are being deleted in the same transaction.

    Returns:
        the number of summaries.
    """
    if not conversation.compacted_to:
        return 0
    summaries: list[tuple[Any, ...]] = list(
        rows_of(conversation)
        .filter(origin=Origin.SUMMARY)
        .values_list("pk", "covers_from", "covers_to", "evicted_in", "token_count")
    )
    if not summaries:
        return 0
    sources = _sources(conversation, keys)
    gone = [row for row in summaries if any(row[1] <= position <= row[2] for position in sources)]
    if not gone:
        return 0
    for chunk in chunks([row[0] for row in gone]):
        rows_of(conversation).filter(pk__in=chunk).delete()
    retained = [row for row in gone if row[3] is None]
    if retained:
        conversation.version += 1
        conversation.prefix_version = conversation.version
        conversation.retained_count -= len(retained)
        conversation.retained_tokens -= sum(row[4] for row in retained)
    conversation.compacted_to = min(conversation.compacted_to, max(sources) + 1)
    return len({row[0] for row in gone} - {*keys})


def _sources(conversation: Conversation, keys: Sequence[int]) -> list[int]:
    """Return the positions of those rows that a summary may have been made from."""
    reasons = [*EVICTED, EvictionReason.SUMMARIZED.value]
    positions: list[int] = []
    for chunk in chunks(list(keys)):
        rows = rows_of(conversation).filter(pk__in=chunk, eviction_reason__in=reasons).exclude(origin=Origin.SUMMARY)
        positions += rows.values_list("position", flat=True)
    return positions
