"""Erase the summaries of erased messages, and prevent rewrites from restoring them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Max, QuerySet

from chatmemory.core.entries import EvictionReason
from chatmemory.core.messages import ChatMessageType
from chatmemory.core.summaries import is_summary_text
from chatmemory.database.idempotency import fingerprint
from chatmemory.database.operations.compaction_plan import TAKEN_IN
from chatmemory.database.reading import chunks, rows_of
from chatmemory.models import Compaction, Conversation, Message, Origin
from chatmemory.models.branch import BranchTree

_MOST_NOTED = 20
"""The maximum number of erased summaries to remember. A client that restores one has usually read the last."""

_Source = tuple[int, int, int | None, str]
"""The position of an evicted row, its ``place``, the version in which it was evicted, and the reason."""


def erase_summaries(conversation: Conversation, keys: Sequence[int]) -> int:
    """Delete all summaries, retained or evicted, that cover one of the messages with the primary keys ``keys``.

    The next summary includes the other messages that they covered.

    Args:
        conversation: the locked conversation. Its counters are changed, but not saved.
        keys: the primary keys of rows that are deleted in the same transaction.

    Returns:
        The number of deleted summaries, including those in ``keys``.
    """
    if not conversation.compacted_to and not _compaction(conversation).exists():
        return 0  # there was no summary, or the next one starts anew
    summaries = list(rows_of(conversation).filter(origin=Origin.SUMMARY).defer("text", "payload", "native"))
    if not summaries:
        return 0
    sources, tree = _sources(conversation, keys), BranchTree.read(conversation)
    summaries.sort(key=lambda row: row.position)
    gone: list[Message] = []
    for row in summaries:
        is_made_from = any(_was_made_from(row, source, tree) for source in sources)
        if is_made_from or any(_took_in(row, earlier, tree) for earlier in gone):
            gone.append(row)
    if not gone:
        return 0
    current = [row for row in summaries if tree.leads_to(row.position, tree.end)]
    if current:
        _go_back(conversation, current, {row.pk for row in gone})
    for chunk in chunks([row.pk for row in gone]):
        erased = rows_of(conversation).filter(pk__in=chunk)
        _note(conversation, [fingerprint(text) for text in erased.order_by("position").values_list("text", flat=True)])
        erased.delete()
    retained = [row for row in gone if row.evicted_in is None]
    if retained:
        conversation.version += 1
        conversation.prefix_version = conversation.version
        conversation.retained_count -= len(retained)
        conversation.retained_tokens -= sum(row.token_count for row in retained)
    return len(gone)


def erased_among(conversation: Conversation, rows: Sequence[Message]) -> set[str]:
    """Return the texts of new rows of a rewrite that are erased summaries, which the client read earlier."""
    texts = {row.text for row in rows if is_summary_text(row.text)}
    if not texts:
        return texts
    noted = {each for text in _compaction(conversation).values_list("erased", flat=True) for each in text.split()}
    # A later summary may have the same text.
    return {text for text in texts if fingerprint(text) in noted} - _ranges(conversation, texts).keys()


def restore_summaries(conversation: Conversation, rows: list[Message]) -> None:
    """Make new rows of a rewrite summaries again, with their ranges, if they have the text of a summary."""
    ranges = _ranges(conversation, {row.text for row in rows if is_summary_text(row.text)})
    for row in rows:
        if row.type == ChatMessageType.USER and row.payload is None and row.text in ranges:
            row.origin = Origin.SUMMARY
            row.covers_from, row.covers_to = ranges[row.text]
            conversation.compacted_to = max(conversation.compacted_to, 1)  # 0 means that there was no summary


def _ranges(conversation: Conversation, texts: set[str]) -> dict[str, tuple[int | None, int | None]]:
    """Return the ranges of stored summaries with one of ``texts``; for equal texts, that of the last summary."""
    if not texts:
        return {}
    rows = rows_of(conversation).filter(origin=Origin.SUMMARY, text__in=texts).order_by("position")
    return {text: (first, last) for text, first, last in rows.values_list("text", "covers_from", "covers_to")}


def _compaction(conversation: Conversation) -> QuerySet[Compaction]:
    return Compaction.objects.using(conversation._state.db).filter(conversation=conversation)


def _note(conversation: Conversation, fingerprints: list[str]) -> None:
    """Remember the erased summaries."""
    rows = _compaction(conversation)
    if not rows.exists():
        rows.bulk_create([Compaction(conversation=conversation)], ignore_conflicts=True)
    known = rows.select_for_update().values_list("erased", flat=True).get().split()
    rows.update(erased=" ".join([*known, *fingerprints][-_MOST_NOTED:]))


def _sources(conversation: Conversation, keys: Sequence[int]) -> list[_Source]:
    found: list[_Source] = []
    for chunk in chunks(list(keys)):
        rows = rows_of(conversation).filter(pk__in=chunk).exclude(origin=Origin.SUMMARY)
        few = rows.only("position", "origin", "covers_from", "evicted_in", "eviction_reason")
        found += [(row.position, row.place, row.evicted_in, row.eviction_reason) for row in few]
    return found


def _was_made_from(summary: Message, source: _Source, tree: BranchTree) -> bool:
    """Return whether a summary may contain the text of a message."""
    position, place, left, reason = source
    first, last = _range_of(summary)
    is_in_range = first <= place <= last and _may_be_in(summary, left, reason)
    return is_in_range and tree.leads_to(position, summary.position)


def _took_in(summary: Message, earlier: Message, tree: BranchTree) -> bool:
    """Return whether a summary may contain the text of an earlier summary.

    It does not contain one that was removed before, unless a rewrite restored it: then the ranges are the same.
    """
    (first, last), (begin, end) = _range_of(summary), _range_of(earlier)
    was_there = _may_be_in(summary, earlier.evicted_in, earlier.eviction_reason)
    took_in = (first, last) == (begin, end) or (first <= begin and end <= last and was_there)
    return took_in and tree.leads_to(earlier.position, summary.position)


def _may_be_in(summary: Message, left: int | None, reason: str) -> bool:
    """Return whether a message that was evicted at a version, for a reason, was there when the summary was written.

    A summary does not contain what was removed before, but it contains what was pinned while it was written.
    """
    return reason in TAKEN_IN or left is None or left > summary.added_in


def _go_back(conversation: Conversation, summaries: list[Message], gone: set[int]) -> None:
    """Let the next summary continue after the latest one that stays, or at the start of the deleted one's range.

    Args:
        conversation: the conversation, whose counter ``compacted_to`` is changed.
        summaries: its summaries, by position.
        gone: the primary keys of the summaries to delete.
    """
    latest = summaries[-1]
    if latest.pk not in gone or latest.position < conversation.compacted_to:
        return  # those to delete are older
    if latest.evicted_in is not None and latest.eviction_reason not in TAKEN_IN:
        _stay_behind_taken_out(conversation)
        return
    first, last = _range_of(latest)
    stay = [row for row in summaries if row.pk not in gone and row.eviction_reason in TAKEN_IN]
    ends = [end for begin, end in map(_range_of, stay) if first <= begin and end <= last]
    back = max(ends[-1] + 1 if ends else first, _last_clear(conversation, summaries))
    conversation.compacted_to = min(conversation.compacted_to, back)


def _last_clear(conversation: Conversation, summaries: list[Message]) -> int:
    """Return the position of the first message after the clearing of a summary that a rewrite may have restored."""
    versions = [row.evicted_in for row in summaries if row.eviction_reason == EvictionReason.CLEARED]
    if not versions:
        return 0
    before = rows_of(conversation).filter(added_in__lt=max(filter(None, versions)))
    last = before.aggregate(last=Max("position"))["last"]
    return 0 if last is None else last + 1


def _stay_behind_taken_out(conversation: Conversation) -> None:
    """Prevent later summaries from restoring what a removed summary covered."""
    told = rows_of(conversation).filter(eviction_reason=EvictionReason.SUMMARIZED.value)
    last = told.filter(position__gte=conversation.compacted_to).aggregate(last=Max("position"))["last"]
    if last is not None:
        conversation.compacted_to = last + 1


def _range_of(summary: Message) -> tuple[int, int]:
    assert summary.covers_from is not None, "every summary has a range"
    assert summary.covers_to is not None, "every summary has a range"
    return summary.covers_from, summary.covers_to
