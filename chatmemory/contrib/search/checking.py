"""What ``chatmemory_verify`` and ``chatmemory_index --check`` find in the index."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from chatmemory.conf import setting
from chatmemory.contrib.search import indexing
from chatmemory.contrib.search.models import Page, Progress, Segment
from chatmemory.contrib.search.segments import Segment as ReadSegment
from chatmemory.contrib.search.segments import keys_of
from chatmemory.database.change import Change, Target
from chatmemory.database.connections import retry
from chatmemory.database.reading import pages
from chatmemory.models import Conversation
from chatmemory.verification import Finding


def gap(conversation: Conversation, progress: Progress | None) -> int:
    """Return the number of positions that should be indexed and are not. The newest are indexed later."""
    if not setting("KEEP_HISTORY"):
        return 0
    done = 0 if progress is None else progress.indexed_to
    return max(0, conversation.next_position // indexing.EVERY * indexing.EVERY - done)


def wrong_documents(conversations: QuerySet[Conversation], *, repair: bool) -> Iterator[Finding]:
    """Yield the conversations whose index is incomplete, or differs from their messages; and rows without one."""
    database = conversations.db
    for page in pages(conversations):
        progress = {row.conversation_id: row for row in Progress.objects.using(database).filter(conversation__in=page)}
        for conversation in page:
            missing = gap(conversation, progress.get(conversation.pk))
            if missing:
                for _ in indexing.index(conversation) if repair else ():
                    pass
                yield _finding(conversation, "search index", "all messages", f"{missing} positions fewer", repair)
            if conversation.pk in progress:
                yield from _differing(conversation, repair)
    if not conversations.query.has_filters():
        yield from _strays(database, repair)


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
        for _ in indexing.index(conversation) if repair else ():
            pass
        yield _finding(conversation, "search index", "the tokens of its messages", problem, repair)


def _difference(conversation: Conversation) -> str:
    rows = Segment.objects.using(conversation._state.db).filter(conversation=conversation).order_by("start")
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
    progress = Progress.objects.using(conversation._state.db).filter(conversation=conversation).first()
    if progress is not None and progress.indexed_to != end:
        return f"none of the positions {end} to {progress.indexed_to - 1}"
    stored = Page.objects.using(conversation._state.db).filter(conversation=conversation).values_list("pk", flat=True)
    return "" if sorted(stored) == sorted(keys) else "pages that belong to no segment"


def _strays(database: str, repair: bool) -> Iterator[Finding]:
    """Yield rows whose conversation is gone."""
    there = Exists(Conversation.objects.filter(pk=OuterRef("conversation")))
    for model in (Page, Segment, Progress):
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


def _finding(conversation: Conversation, what: str, expected: str, found: str, repaired: bool) -> Finding:
    return Finding(
        conversation=conversation.pk,
        memory_id=conversation.memory_id,
        what=what,
        expected=expected,
        found=found,
        repaired=repaired,
    )
