"""Write the index.

Nothing is written while messages are added. After the commit, a receiver indexes a conversation when it has some new
messages; a search reads those that are not indexed yet. So a process that is killed loses nothing, and
``chatmemory_index`` indexes the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial

from django.db import transaction
from django.db.models import F

from chatmemory.conf import setting
from chatmemory.contrib.search.models import Page, Progress, Segment
from chatmemory.contrib.search.postings import MOST_DOCUMENTS
from chatmemory.contrib.search.segments import STEP, Said, keys_of
from chatmemory.contrib.search.segments import Segment as NewSegment
from chatmemory.database.change import Target
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks, read_in_parts, rows_of
from chatmemory.models import Conversation

_AT_ONCE = 4096
_FAN = 8  # so many segments of one size become one, or as many as one may contain


def segment_of(conversation: Conversation, start: int, size: int) -> NewSegment:
    """Return the segment of some positions, made from the messages."""
    rows = rows_of(conversation).history().filter(position__gte=start, position__lt=start + size)
    return NewSegment.of(map(Said._make, read_in_parts(rows.values_list(*Said._fields))), start, size)


def index_all(conversation: Conversation) -> int:
    """Index the messages of a conversation that are not indexed yet, and return their number."""
    return sum(index(conversation))


def index(conversation: Conversation) -> Iterator[int]:
    """Index as ``index_all`` does, and yield the number of each step.

    The last ``STEP`` - 1 messages, at most, are left for later. Without a history (``KEEP_HISTORY = False``) nothing is
    indexed, because few messages remain.
    """
    if not setting("KEEP_HISTORY"):
        return
    database = conversation._state.db or "default"
    while count := retry(database, partial(_index_some, conversation)):
        yield count


def _index_some(conversation: Conversation) -> int:
    database = conversation._state.db
    progress = _progress_of(conversation)
    # Before the messages: all messages before this position are there then.
    rows = Conversation.objects.using(database).filter(pk=conversation.pk)
    next_position = rows.values_list("next_position", flat=True).first()
    if progress is None or next_position is None:
        return 0
    start = progress.indexed_to
    size = min(_AT_ONCE, (next_position - start) // STEP * STEP)
    if size <= 0:
        return 0
    new = segment_of(conversation, start, size)
    with transaction.atomic(using=database):
        unchanged = Progress.objects.using(database).filter(
            conversation=conversation, indexed_to=start, erasures=progress.erasures
        )
        is_unchanged = bool(unchanged.update(indexed_to=start + size))
        if is_unchanged:
            _append(conversation, new)
    return size if is_unchanged else _index_some(conversation)


def _progress_of(conversation: Conversation) -> Progress | None:
    rows = Progress.objects.using(conversation._state.db).filter(conversation=conversation)
    progress = rows.first()
    if progress is not None:
        return progress
    with suppress(Conversation.DoesNotExist):
        # Under the lock, so that an erasure either sees the row or is over before messages are read.
        Target.as_read(conversation).change(lambda change: _start(change.conversation))
    return rows.first()


def _start(conversation: Conversation) -> None:
    Progress.objects.using(conversation._state.db).get_or_create(conversation=conversation)


def _append(conversation: Conversation, new: NewSegment) -> None:
    """Write a segment after the others, and merge segments of the same size, so that a conversation has few of them."""
    rows = Segment.objects.using(conversation._state.db).filter(conversation=conversation)
    merged: list[int] = []
    size = new.size
    before = list(rows.order_by("-start").values_list("pk", "size")[: 4 * _FAN])
    while count := min(_FAN, MOST_DOCUMENTS // size) - 1:
        some, before = before[:count], before[count:]
        total = sum(other for _, other in some)
        if len(some) < count or any(other > size for _, other in some) or total + size > MOST_DOCUMENTS:
            break
        merged += [key for key, _ in some]
        size += total
    parts = []
    for row in rows.filter(pk__in=merged).order_by("start"):
        parts.append(NewSegment.read(row))
        _delete(row)
    (NewSegment.merged([*parts, new]) if parts else new).save(conversation)


def erase(conversation: Conversation, positions: Collection[int]) -> None:
    """Erase documents, in the transaction that erases their messages."""
    if not positions or not _note_erasure(conversation):
        return
    rows = Segment.objects.using(conversation._state.db).filter(conversation=conversation)
    first, last = min(positions), max(positions)
    for row in rows.filter(start__lte=last, start__gt=first - MOST_DOCUMENTS):
        segment = NewSegment.read(row)
        if segment.remove(positions):
            _delete(row)
            segment.save(conversation)


def erase_all(conversation: Conversation) -> None:
    """Erase the index of a conversation, in the transaction that changes or erases its messages."""
    if _note_erasure(conversation, indexed_to=0):
        for model in (Page, Segment):
            model.objects.using(conversation._state.db).filter(conversation=conversation).delete()


def rebuild(conversation: Conversation) -> None:
    """Erase the index of a conversation, so that it is indexed anew."""
    with suppress(Conversation.DoesNotExist):
        Target.as_read(conversation).change(lambda change: erase_all(change.conversation))


def _note_erasure(conversation: Conversation, **changes: int) -> bool:
    """Make a process stop that is indexing messages which it has read; return whether there is an index."""
    rows = Progress.objects.using(conversation._state.db).filter(conversation=conversation)
    return bool(rows.update(erasures=F("erasures") + 1, **changes))


def _delete(row: Segment) -> None:
    for keys in chunks(list(keys_of(row))):
        Page.objects.using(row._state.db).filter(conversation=row.conversation_id, pk__in=keys).delete()
    Segment.objects.using(row._state.db).filter(conversation=row.conversation_id, pk=row.pk).delete()
