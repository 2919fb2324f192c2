"""Erase conversations, evicted messages and idempotency keys by age.

Each function yields after every transaction, so that the caller can show progress or stop. Erased data stay erased, and
the next call continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import transaction
from django.db.models import Exists, OuterRef, ProtectedError, Q, QuerySet, RestrictedError

from chatmemory.capabilities import hooks
from chatmemory.core.asynchronous import as_async_iterator
from chatmemory.core.entries import EvictionReason
from chatmemory.database import operations
from chatmemory.database.change import Change, Target, delete_rows
from chatmemory.database.connections import retry
from chatmemory.database.operations.erase_summaries import erase_summaries
from chatmemory.database.reading import chunks, on_primary, pages, rows_of
from chatmemory.models import (
    COUNTERS,
    Compaction,
    Conversation,
    IdempotencyKey,
    MessageQuerySet,
    Origin,
)


@dataclass(frozen=True, kw_only=True)
class Erased:
    """The result of one step, or in a dry run what it would be."""

    conversations: int = 0

    messages: int = 0

    keys: int = 0
    """The number of idempotency keys."""

    held: int = 0
    """The number of conversations that stay, or keep evicted messages, because the project's objects refer to them and
    forbid their deletion.
    """

    def __add__(self, other: Erased) -> Erased:
        return Erased(**{name: value + getattr(other, name) for name, value in vars(self).items()})


class _StillInUseError(Exception):
    """There was activity in a conversation since it was found."""


def purge_conversations(
    before: datetime, conversations: QuerySet[Conversation] | None = None, *, dry_run: bool = False
) -> Iterator[Erased]:
    """Erase conversations whose last activity was before ``before``. Each step erases one conversation.

    Args:
        before: a time with a time zone.
        conversations: the conversations; by default all.
        dry_run: whether to count only.
    """
    for page in pages(on_primary(conversations).filter(updated_at__lt=before)):
        for conversation in page:
            yield _erase(conversation, before, dry_run)


apurge_conversations = as_async_iterator(purge_conversations)
"""Async version of ``purge_conversations``."""


def _erase(conversation: Conversation, before: datetime, dry_run: bool) -> Erased:
    def require_unused(locked: Conversation) -> None:
        if locked.updated_at >= before:
            raise _StillInUseError

    database = conversation._state.db or "default"
    whole = Erased(
        conversations=1,
        messages=rows_of(conversation).count(),
        keys=IdempotencyKey.objects.using(database).filter(conversation=conversation).count(),
    )
    if dry_run:
        return whole
    try:
        operations.erase(Target.as_read(conversation, precondition=require_unused))
    except (_StillInUseError, Conversation.DoesNotExist):
        return Erased()
    except (ProtectedError, RestrictedError):
        return Erased(held=1)
    return whole


def purge_evicted(
    before: datetime,
    conversations: QuerySet[Conversation] | None = None,
    *,
    batch_size: int = 1000,
    dry_run: bool = False,
) -> Iterator[Erased]:
    """Erase messages that were evicted before ``before``, oldest evictions first.

    The result is that of ``KEEP_HISTORY = False``: ``message_count`` still counts every message that was said,
    positions and versions stay, and the history and past memories lack the erased messages. Retained messages stay, and
    so does the original of a copy in the memory. If a restored copy stays, so do its original and the other copies.
    Summaries of erased messages are erased in the same transaction, in a new version.

    Args:
        before: a time with a time zone.
        conversations: the conversations; by default all.
        batch_size: the number of messages to erase in one transaction and step, while their conversation is locked.
        dry_run: whether to count only.
    """
    found = on_primary(conversations).filter(created_at__lt=before)
    purges = hooks("purge")
    if not purges:
        found = found.with_evicted()
    for page in pages(found):
        for conversation in page:
            if not dry_run:
                for purge in purges:
                    purge(conversation, before)
            if conversation.next_position == conversation.retained_count:
                continue  # no message was ever evicted
            old = _evicted(conversation, before)
            if dry_run:
                yield Erased(messages=old.count())
                continue
            try:
                while gone := _erase_messages(conversation, old, batch_size):
                    yield Erased(messages=gone)
                    if gone < batch_size:
                        break
            except (ProtectedError, RestrictedError):
                yield Erased(held=1)


apurge_evicted = as_async_iterator(purge_evicted)
"""Async version of ``purge_evicted``."""


def _evicted(conversation: Conversation, before: datetime) -> MessageQuerySet:
    """Return the messages that were evicted before ``before``, except those of which a copy is kept."""
    rows = rows_of(conversation)
    copies = rows.retained().filter(covers_from=OuterRef("position")).order_by()
    is_copied = Q(Exists(copies.filter(origin=Origin.COPY)), eviction_reason=EvictionReason.REWRITTEN.value)
    # The conversation may go back to where a copy is that left later.
    restored = rows.filter(Q(evicted_in__isnull=True) | Q(evicted_at__gte=before), origin=Origin.RESTORED).order_by()
    kept = restored.values("covers_from")
    is_copied |= Q(position__in=kept) | Q(origin=Origin.RESTORED, covers_from__in=kept)
    return rows.filter(~is_copied, evicted_in__isnull=False, evicted_at__lt=before)


def _erase_messages(conversation: Conversation, old: MessageQuerySet, size: int) -> int:
    gone = 0

    def work(change: Change) -> None:
        nonlocal gone
        # In the order of the index, so that the database reads only the rows that it deletes.
        keys = list(old.order_by("evicted_in", "memory_order").values_list("pk", flat=True)[:size])
        locked = change.conversation
        gone = erase_summaries(locked, keys)
        for chunk in chunks(keys):
            gone += delete_rows(locked, chunk)
        if gone:  # the error may quote what is erased
            Compaction.objects.using(locked._state.db).filter(conversation=locked).exclude(error="").update(error="")
        locked.purged_count += gone
        Conversation.objects.using(locked._state.db).filter(pk=locked.pk).update(
            **{name: getattr(locked, name) for name in COUNTERS}
        )

    try:
        Target.as_read(conversation).change(work)
    except Conversation.DoesNotExist:
        return 0
    return gone


def purge_keys(
    before: datetime,
    conversations: QuerySet[Conversation] | None = None,
    *,
    batch_size: int = 1000,
    dry_run: bool = False,
) -> Iterator[Erased]:
    """Erase idempotency keys from before ``before``. A repeated request with an erased key is carried out again.

    Args:
        before: a time with a time zone.
        conversations: the conversations of the keys; by default all.
        batch_size: the number of keys to erase in one transaction and step.
        dry_run: whether to count only.
    """
    database = on_primary(conversations).db
    old = IdempotencyKey.objects.using(database).filter(created_at__lt=before)
    if conversations is not None:
        old = old.filter(conversation__in=conversations.using(database).order_by().values("pk"))
    if dry_run:
        yield Erased(keys=retry(database, old.count))
        return
    after = 0
    numbers = old.order_by("pk").values_list("pk", flat=True)
    while keys := retry(database, lambda: list(numbers.filter(pk__gt=after)[:batch_size])):  # noqa: B023 called at once
        yield Erased(keys=retry(database, partial(_erase_keys, database, keys)))
        after = keys[-1]


apurge_keys = as_async_iterator(purge_keys)
"""Async version of ``purge_keys``."""


def _erase_keys(database: str, keys: list[int]) -> int:
    gone = 0
    with transaction.atomic(using=database):
        for chunk in chunks(keys):
            part = IdempotencyKey.objects.using(database).filter(pk__in=chunk)
            gone += part.delete()[1].get(IdempotencyKey._meta.label, 0)
    return gone
