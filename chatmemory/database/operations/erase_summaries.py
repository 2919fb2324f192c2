"""Erase the summaries that were made from messages that are erased, and let no rewrite bring them back."""

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

_MOST_NOTED = 20
"""The most erased summaries that are noted. A client that writes an old one back has mostly read the last."""

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
    if not conversation.compacted_to and not _compaction(conversation).exists():
        return 0  # there was no summary, or the next begins anew
    summaries = list(rows_of(conversation).filter(origin=Origin.SUMMARY).defer("text", "payload", "native"))
    if not summaries:
        return 0
    sources = _sources(conversation, keys)
    summaries.sort(key=lambda row: row.position)
    gone: list[Message] = []
    for row in summaries:
        if any(_was_made_from(row, source) for source in sources) or any(_took_in(row, earlier) for earlier in gone):
            gone.append(row)
    if not gone:
        return 0
    _go_back(conversation, summaries, {row.pk for row in gone})
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
    """Return the texts of those new rows of a rewrite that are erased summaries: the client has read them before."""
    texts = {row.text for row in rows if is_summary_text(row.text)}
    if not texts:
        return texts
    noted = {each for text in _compaction(conversation).values_list("erased", flat=True) for each in text.split()}
    # A later summary may say the same.
    return {text for text in texts if fingerprint(text) in noted} - _ranges(conversation, texts).keys()


def restore_summaries(conversation: Conversation, rows: list[Message]) -> None:
    """Make those of the new rows of a rewrite that say what a summary said that summary again, with its range."""
    ranges = _ranges(conversation, {row.text for row in rows if is_summary_text(row.text)})
    for row in rows:
        if row.type == ChatMessageType.USER and row.payload is None and row.text in ranges:
            row.origin = Origin.SUMMARY
            row.covers_from, row.covers_to = ranges[row.text]
            conversation.compacted_to = max(conversation.compacted_to, 1)  # 0 says that there was no summary


def _ranges(conversation: Conversation, texts: set[str]) -> dict[str, tuple[int | None, int | None]]:
    """Return the ranges of the stored summaries that have one of ``texts``; of equal ones that of the last."""
    if not texts:
        return {}
    rows = rows_of(conversation).filter(origin=Origin.SUMMARY, text__in=texts).order_by("position")
    return {text: (first, last) for text, first, last in rows.values_list("text", "covers_from", "covers_to")}


def _compaction(conversation: Conversation) -> QuerySet[Compaction]:
    return Compaction.objects.using(conversation._state.db).filter(conversation=conversation)


def _note(conversation: Conversation, fingerprints: list[str]) -> None:
    """Note the summaries that are erased."""
    rows = _compaction(conversation)
    if not rows.exists():
        rows.bulk_create([Compaction(conversation=conversation)], ignore_conflicts=True)
    known = rows.select_for_update().values_list("erased", flat=True).get().split()
    rows.update(erased=" ".join([*known, *fingerprints][-_MOST_NOTED:]))


def _sources(conversation: Conversation, keys: Sequence[int]) -> list[_Source]:
    found: list[_Source] = []
    for chunk in chunks(list(keys)):
        rows = rows_of(conversation).filter(pk__in=chunk).exclude(origin=Origin.SUMMARY)
        found += rows.values_list("position", "evicted_in", "eviction_reason")
    return found


def _was_made_from(summary: Message, source: _Source) -> bool:
    """Return whether the text of a message may be in a summary."""
    position, left, reason = source
    first, last = _range_of(summary)
    return first <= position <= last and _may_be_in(summary, left, reason)


def _took_in(summary: Message, earlier: Message) -> bool:
    """Return whether the text of an earlier summary may be in a summary.

    One that somebody took out before is not in it, unless a rewrite brought it back: then the ranges are the same.
    """
    (first, last), (begin, end) = _range_of(summary), _range_of(earlier)
    was_there = _may_be_in(summary, earlier.evicted_in, earlier.eviction_reason)
    return (first, last) == (begin, end) or (first <= begin and end <= last and was_there)


def _may_be_in(summary: Message, left: int | None, reason: str) -> bool:
    """Return whether what left at a version, for a reason, was there when the summary was made.

    What somebody took out before the summary came is not in it. What was pinned while it was being made is.
    """
    return reason in TAKEN_IN or left is None or left > summary.added_in


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
    if latest.evicted_in is not None and latest.eviction_reason not in TAKEN_IN:
        _stay_behind_taken_out(conversation)
        return
    first, last = _range_of(latest)
    stay = [row for row in summaries if row.pk not in gone and row.eviction_reason in TAKEN_IN]
    ends = [end for begin, end in map(_range_of, stay) if first <= begin and end <= last]
    back = max(ends[-1] + 1 if ends else first, _last_clear(conversation, summaries))
    conversation.compacted_to = min(conversation.compacted_to, back)


def _last_clear(conversation: Conversation, summaries: list[Message]) -> int:
    """Return the position from which messages came after a summary was cleared that a rewrite may have brought back."""
    versions = [row.evicted_in for row in summaries if row.eviction_reason == EvictionReason.CLEARED]
    if not versions:
        return 0
    before = rows_of(conversation).filter(added_in__lt=max(filter(None, versions)))
    last = before.aggregate(last=Max("position"))["last"]
    return 0 if last is None else last + 1


def _stay_behind_taken_out(conversation: Conversation) -> None:
    """Let no later summary bring back what one stood for that somebody took out of the memory."""
    told = rows_of(conversation).filter(eviction_reason=EvictionReason.SUMMARIZED.value)
    last = told.filter(position__gte=conversation.compacted_to).aggregate(last=Max("position"))["last"]
    if last is not None:
        conversation.compacted_to = last + 1


def _range_of(summary: Message) -> tuple[int, int]:
    """Return the positions of the first and the last message that a summary covers."""
    assert summary.covers_from is not None, "every summary has a range"
    assert summary.covers_to is not None, "every summary has a range"
    return summary.covers_from, summary.covers_to
