"""How a change gets into the rows of a conversation: lock, write, tell.

The first statement of every change locks the conversation's row, on SQLite the whole file, so changes of one
conversation queue. Inside a transaction of the caller's the lock is held until that one ends; there a collision with
other transactions reaches the caller, who alone can begin anew. Elsewhere the change is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from django.db import connections, router, transaction
from django.utils import timezone

from chatmemory import hot_path, signals
from chatmemory.conf import setting
from chatmemory.eviction import EvictionReason
from chatmemory.hot_path import COUNTERS, MOST_ROWS, Key, save_counters, save_rows
from chatmemory.managers import MessageQuerySet
from chatmemory.models import Conversation, Message
from chatmemory.retrying import retried

__all__ = ["Change", "MemorySize", "Target", "after_commit", "chunks", "rows_of", "write"]

T = TypeVar("T")

# SQLite bounds the parameters of a statement, MariaDB its bytes.
_ROWS_AT_ONCE = 500
_CHARS_AT_ONCE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class MemorySize:
    """How large a memory is, and may be."""

    window: str
    """``"messages"`` or ``"tokens"``: what ``limit`` counts."""

    limit: int

    messages: int
    """Retained ones."""

    tokens: int
    """Of the retained messages."""

    version: int


@dataclass
class Change:
    """What a change did."""

    conversation: Conversation
    """As it is after the change."""

    added: list[Message] = field(default_factory=list)
    """The new rows, in the order said. Some may be evicted already."""

    evicted: list[Message] = field(default_factory=list)
    """The rows that left the memory, each with its reason."""

    recalled: MemorySize | None = None
    """What :attr:`memory` was, if the change happened before and its idempotency key came again."""

    @property
    def memory(self) -> MemorySize:
        """The memory right after the change."""
        conversation = self.conversation
        return self.recalled or MemorySize(
            window=conversation.window,
            limit=conversation.limit,
            messages=conversation.retained_count,
            tokens=conversation.retained_tokens,
            version=conversation.version,
        )


@dataclass(frozen=True)
class Target:
    """The conversation to change, on the database that is written to, and what to insert where it may be missing."""

    key: Key

    new: Callable[[], Conversation] | None = None
    """Makes the unsaved row, for a conversation that may be missing."""

    instance: Conversation | None = None
    """The caller's object, which learns what its row has become."""

    precondition: Callable[[Conversation], None] | None = None
    """Called with the locked row before anything changes; what it raises ends the change."""

    @classmethod
    def of(cls, conversation: Conversation, precondition: Callable[[Conversation], None] | None = None) -> Target:
        """An existing conversation.

        Raises:
            ValueError: it was never saved.
        """
        if conversation._state.adding:
            raise ValueError("save the conversation before you change its memory")
        database = router.db_for_write(Conversation, instance=conversation)
        return cls(Key.of(conversation, database), instance=conversation, precondition=precondition)

    @classmethod
    def named(
        cls,
        owner: Any,
        memory_id: str,
        new: Callable[[], Conversation] | None,
        precondition: Callable[[Conversation], None] | None = None,
    ) -> Target:
        """The conversation that ``owner`` has under ``memory_id``."""
        database = router.db_for_write(Conversation)
        return cls(Key.named(owner, memory_id, database), new, precondition=precondition)

    def change(self, work: Callable[[Change], None]) -> Change:
        """Do ``work`` on the locked row, within one transaction.

        Args:
            work: fills the empty change that it gets. It is called again with another one if the database had to undo
                the transaction, so it must not rely on what it did before.

        Raises:
            Conversation.DoesNotExist: the conversation is missing, and must not be made.
        """
        database = self.key.database

        def transact() -> Change | None:
            with transaction.atomic(using=database):
                conversation = hot_path.lock(self.key)
                if conversation is None:
                    return None
                self._check(conversation)
                change = Change(conversation)
                work(change)
                return change

        for _attempt in range(10):
            change = retried(database, transact)
            if change is not None:
                break
            retried(database, self._make)
        else:
            raise Conversation.DoesNotExist("the conversation is erased whenever it is made")
        if self.instance is not None:
            for name in COUNTERS:
                setattr(self.instance, name, getattr(change.conversation, name))
        return change

    def _check(self, conversation: Conversation) -> None:
        if self.precondition is not None:
            self.precondition(conversation)

    def _make(self) -> None:
        if self.new is None:
            raise Conversation.DoesNotExist("the conversation has been erased")
        new = self.new()
        self._check(new)
        # Another process may make it first. An error at that would leave a lock behind on MariaDB, by which two
        # transactions of callers could deadlock; an upsert does not, and changes nothing of a row that is there.
        with_target = connections[self.key.database].features.supports_update_conflicts_with_target
        Conversation.objects.using(self.key.database).bulk_create(
            [new],
            update_conflicts=True,
            update_fields=["memory_id"],
            unique_fields=["memory_id", "owner_key"] if with_target else None,
        )


def rows_of(conversation: Conversation) -> MessageQuerySet:
    """Its messages, on the database that it was read from."""
    return Message.objects.using(conversation._state.db).filter(conversation=conversation)


def write(
    change: Change,
    added: list[Message],
    evicted: list[tuple[Message, EvictionReason]],
    *,
    rewritten: bool = False,
) -> None:
    """Write rows and counters, as one version, and tell the receivers when it is committed."""
    conversation = change.conversation
    now = timezone.now()
    if added or evicted:
        conversation.version += 1
    for row in added:
        row.conversation = conversation
        row.added_in = conversation.version
        row.created_at = now
        conversation.message_count += not row.synthetic
        conversation.retained_count += 1
        conversation.retained_tokens += row.token_count
    for row, reason in evicted:
        row.evicted_in = conversation.version
        row.evicted_at = now
        row.eviction_reason = reason.value
        conversation.retained_count -= 1
        conversation.retained_tokens -= row.token_count
    gone = [row for row, _ in evicted]
    _write_rows(conversation, added, gone)
    conversation.updated_at = now
    save_counters(conversation)
    if gone:
        after_commit(signals.messages_evicted, conversation, messages=gone)
    if rewritten:
        after_commit(signals.memory_rewritten, conversation, messages=added)
    elif added:
        after_commit(signals.messages_added, conversation, messages=added)
    change.added, change.evicted = added, gone


def _write_rows(conversation: Conversation, added: list[Message], evicted: list[Message]) -> None:
    stored = [row for row in evicted if row.pk is not None]
    if not setting("KEEP_HISTORY"):
        for chunk in chunks(stored):
            rows_of(conversation).filter(pk__in=[row.pk for row in chunk]).delete()
        added = [row for row in added if row.evicted_in is None]
        stored = []
    chars = sum(len(row.text) + len(row.payload or "") for row in (*added, *stored))
    if len(added) + len(stored) <= MOST_ROWS and chars <= _CHARS_AT_ONCE:
        if added or stored:
            save_rows(conversation, added, stored)
        return
    longest = max((len(row.text) + len(row.payload or "") for row in added), default=0)
    batch_size = max(1, min(_ROWS_AT_ONCE, _CHARS_AT_ONCE // max(1, longest)))
    Message.objects.using(conversation._state.db).bulk_create(added, batch_size=batch_size)
    for reason in sorted({row.eviction_reason for row in stored}):
        for chunk in chunks([row for row in stored if row.eviction_reason == reason]):
            rows_of(conversation).filter(pk__in=[row.pk for row in chunk]).update(
                evicted_in=conversation.version, evicted_at=chunk[0].evicted_at, eviction_reason=reason
            )


def chunks(rows: list[T]) -> Iterator[list[T]]:
    """``rows`` in parts that one statement can name."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]


def after_commit(signal: Any, conversation: Conversation, **kwargs: Any) -> None:
    """Send a signal once the transaction is committed."""
    send = partial(signal.send_robust, sender=Conversation, conversation=conversation, **kwargs)
    transaction.on_commit(send, using=conversation._state.db, robust=True)
