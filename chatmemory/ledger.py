"""How a change gets into the rows of a conversation: lock, write, tell.

The first statement of every change is a write to the conversation's row. It takes the row's lock on PostgreSQL and
MariaDB and the write lock on SQLite, so changes of one conversation queue; reading first would deadlock or fail on
SQLite. Inside a transaction of the caller's the lock is held until that one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from django.db import connections, router, transaction
from django.db.models import F
from django.utils import timezone

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.eviction import EvictionReason
from chatmemory.managers import ConversationQuerySet, MessageQuerySet, owner_key
from chatmemory.models import Conversation, Message

__all__ = ["WRITTEN", "Change", "MemorySize", "Target", "after_commit", "chunks", "rows_of", "write"]

T = TypeVar("T")

# SQLite bounds the parameters of a statement, MariaDB its bytes.
_ROWS_AT_ONCE = 500
_CHARS_AT_ONCE = 1_000_000

# What a change writes of the conversation's row.
WRITTEN = [
    "window",
    "limit",
    "model",
    "always_keep_system_message_first",
    "version",
    "next_position",
    "message_count",
    "retained_count",
    "retained_tokens",
    "updated_at",
]


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
    """The conversation to change: its queryset of one, and what to insert where it may be missing."""

    queryset: ConversationQuerySet
    """On the database that is written to, so that nothing is read from a replica that lags behind."""

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
        alias = router.db_for_write(Conversation, instance=conversation)
        queryset = Conversation.objects.using(alias).filter(pk=conversation.pk)
        return cls(queryset, instance=conversation, precondition=precondition)

    @classmethod
    def named(
        cls,
        owner: Any,
        memory_id: str,
        new: Callable[[], Conversation] | None,
        precondition: Callable[[Conversation], None] | None = None,
    ) -> Target:
        """The conversation that ``owner`` has under ``memory_id``."""
        alias = router.db_for_write(Conversation)
        queryset = Conversation.objects.using(alias).filter(memory_id=memory_id, owner_key=owner_key(owner))
        return cls(queryset, new, precondition=precondition)

    @contextmanager
    def change(self) -> Iterator[Change]:
        """An empty change of the locked row, to be filled within the transaction.

        Raises:
            Conversation.DoesNotExist: the conversation is missing, and must not be made.
        """
        for _attempt in range(10):
            with transaction.atomic(using=self.queryset.db):
                if self.queryset.update(version=F("version")):
                    change = Change(self.queryset.get())
                    self._check(change.conversation)
                    yield change
                    break
            self._make()
        else:
            raise Conversation.DoesNotExist("the conversation is erased whenever it is made")
        if self.instance is not None:
            for name in WRITTEN:
                setattr(self.instance, name, getattr(change.conversation, name))

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
        with_target = connections[self.queryset.db].features.supports_update_conflicts_with_target
        self.queryset.bulk_create(
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
    conversation.save(update_fields=WRITTEN)
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
