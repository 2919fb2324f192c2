"""The checks of the index, for ``chatmemory_verify`` and ``chatmemory_index --check``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from chatmemory.conf import setting
from chatmemory.contrib.search import indexing
from chatmemory.contrib.search.models import EVERY, Page, Progress, Quoted, Segment
from chatmemory.contrib.search.segments import Segment as ReadSegment
from chatmemory.contrib.search.segments import keys_of
from chatmemory.database.change import Change, Target
from chatmemory.database.connections import retry
from chatmemory.database.reading import pages, rows_of
from chatmemory.models import Conversation
from chatmemory.verification import Finding

_SOON = timedelta(minutes=5)


def gap(conversation: Conversation, progress: Progress | None, *, before: datetime | None = None) -> int:
    """Return the number of positions that are not indexed, except those that are indexed later.

    Args:
        conversation: the conversation.
        progress: how far it is indexed.
        before: ignore the gap if its first message was said later, because a process may be indexing it, and if nothing
            of the conversation was ever indexed, because it may have been imported.
    """
    if not setting("KEEP_HISTORY") or (progress is None and before is not None):
        return 0
    done = 0 if progress is None else progress.indexed_to
    missing = max(0, conversation.next_position // EVERY * EVERY - done)
    if missing and before is not None:
        rows = rows_of(conversation).filter(position__gte=done).order_by("position")
        first = rows.values_list("created_at", flat=True).first()
        if first is None or first >= before:
            return 0
    return missing


def wrong_documents(
    conversations: QuerySet[Conversation], *, repair: bool, before: datetime | None = None
) -> Iterator[Finding]:
    """Yield the conversations whose index is incomplete, or differs from their messages; and rows without one."""
    database = conversations.db
    for page in pages(conversations):
        progress = {row.conversation_id: row for row in Progress.objects.using(database).filter(conversation__in=page)}
        for conversation in page:
            missing = gap(conversation, progress.get(conversation.pk), before=before)
            if missing:
                if repair:
                    indexing.index_all(conversation)
                yield _finding(conversation, "all messages", f"{missing} positions fewer", repair)
            if conversation.pk in progress:
                yield from _differing(conversation, repair)
    if not conversations.query.has_filters():
        yield from _strays(database, repair)


def wrong_for_a_while(conversations: QuerySet[Conversation], *, repair: bool) -> Iterator[Finding]:
    """Yield what ``wrong_documents`` finds, without messages that were said just now, or are not indexed yet."""
    return wrong_documents(conversations, repair=repair, before=timezone.now() - _SOON)


def _differing(conversation: Conversation, repair: bool) -> Iterator[Finding]:
    """Yield a finding if the documents are not those of the messages."""
    problems: list[str] = []

    def work(change: Change) -> None:
        problems[:] = filter(None, [_difference(change.conversation)])
        if problems and repair:
            indexing.erase_all(change.conversation)

    try:
        Target.as_read(conversation).change(work)
    except Conversation.DoesNotExist:
        return
    for problem in problems:
        if repair:
            indexing.index_all(conversation)
        yield _finding(conversation, "the tokens of its messages", problem, repair)


def _difference(conversation: Conversation) -> str:
    database = conversation._state.db
    # Locked, so that nobody indexes the conversation meanwhile.
    locked = Progress.objects.using(database).select_for_update().filter(conversation=conversation)
    indexed_to = locked.values_list("indexed_to", flat=True).first() or 0
    rows = Segment.objects.using(database).filter(conversation=conversation).order_by("start")
    end = 0
    keys: list[int] = []
    for row in rows:
        if row.start != end:
            return f"none of the positions {end} to {row.start - 1}"
        end = row.start + row.size
        keys += keys_of(row)
        segment = ReadSegment.read(row)
        if segment != indexing.segment_of(conversation, row.start, row.size):
            return f"others at positions {row.start} to {end - 1}"
    if indexed_to != end:
        return f"none of the positions {end} to {indexed_to - 1}"
    stored = Page.objects.using(database).filter(conversation=conversation).values_list("pk", flat=True)
    return "" if sorted(stored) == sorted(keys) else "pages that belong to no segment"


def _strays(database: str, repair: bool) -> Iterator[Finding]:
    """Yield rows whose conversation is gone."""
    there = Exists(Conversation.objects.filter(pk=OuterRef("conversation")))
    for model in (Page, Segment, Progress, Quoted):
        rows = model._base_manager.using(database).filter(~there)
        for key in retry(database, lambda: set(rows.values_list("conversation_id", flat=True))):  # noqa: B023 at once
            with transaction.atomic(using=database):
                count = rows.filter(conversation_id=key).count()
                if repair:
                    rows.filter(conversation_id=key).delete()
            yield Finding(
                conversation=key,
                memory_id="",
                what=f"search index: {model._meta.verbose_name_plural}",
                expected="a conversation",
                found=f"{count} without one",
                repaired=repair,
            )


def _finding(conversation: Conversation, expected: str, found: str, repaired: bool) -> Finding:
    return Finding(
        conversation=conversation.pk,
        memory_id=conversation.memory_id,
        what="search index",
        expected=expected,
        found=found,
        repaired=repaired,
    )
