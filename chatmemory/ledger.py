"""How a change gets into the rows of a conversation: lock, write, tell.

The first statement of every change is a write to the conversation's row. It takes the row's lock on PostgreSQL and
MariaDB and the write lock on SQLite, so changes of one conversation queue; reading first would deadlock or fail on
SQLite. Inside a transaction of the caller's the lock is held until that one ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import IntegrityError, router, transaction
from django.db.models import F
from django.utils import timezone

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.eviction import EvictionReason
from chatmemory.managers import ConversationQuerySet
from chatmemory.models import Conversation, Message

__all__ = ["Change", "Target", "after_commit", "atomic", "write"]

# What a change writes of the conversation's row.
_WRITTEN = [
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


@dataclass
class Change:
    """What a change did."""

    conversation: Conversation
    """As it is after the change."""

    added: list[Message] = field(default_factory=list)
    """The new rows, in the order said. Some may be evicted already."""

    evicted: list[Message] = field(default_factory=list)
    """The rows that left the memory, each with its reason."""


@dataclass(frozen=True)
class Target:
    """The conversation to change: its queryset of one, and how to make it where it may be missing."""

    queryset: ConversationQuerySet

    create: Callable[[], Conversation] | None = None

    instance: Conversation | None = None
    """The caller's object, which learns what its row has become."""

    @classmethod
    def of(cls, conversation: Conversation) -> Target:
        """An existing conversation."""
        return cls(Conversation.objects.filter(pk=conversation.pk), instance=conversation)

    def lock(self) -> Conversation:
        """The row, locked until the transaction ends.

        Raises:
            Conversation.DoesNotExist: it is missing, and must not be made.
        """
        while not self.queryset.update(version=F("version")):
            if self.create is None:
                raise Conversation.DoesNotExist("the conversation has been erased")
            try:
                with transaction.atomic(using=self.queryset.db):
                    self.create()
            except IntegrityError:  # another process made it first
                if not self.queryset.exists():
                    raise
        return self.queryset.get()

    def settle(self, change: Change) -> Change:
        """Tell the caller's object, and give ``change`` back."""
        if self.instance is not None:
            for name in _WRITTEN:
                setattr(self.instance, name, getattr(change.conversation, name))
        return change


def atomic() -> Any:
    """The transaction of one change."""
    return transaction.atomic(using=router.db_for_write(Conversation))


def write(
    conversation: Conversation,
    added: list[Message],
    evicted: list[tuple[Message, EvictionReason]],
    *,
    rewritten: bool = False,
) -> Change:
    """Write rows and counters, as one version, and tell the receivers when it is committed."""
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
    conversation.save(update_fields=_WRITTEN)
    if gone:
        after_commit(signals.messages_evicted, conversation, messages=gone)
    if rewritten:
        after_commit(signals.memory_rewritten, conversation, messages=added)
    elif added:
        after_commit(signals.messages_added, conversation, messages=added)
    return Change(conversation, added, gone)


def _write_rows(conversation: Conversation, added: list[Message], evicted: list[Message]) -> None:
    stored = [row for row in evicted if row.pk is not None]
    if not setting("KEEP_HISTORY"):
        if stored:
            conversation.messages.filter(pk__in=[row.pk for row in stored]).delete()
        added = [row for row in added if row.evicted_in is None]
        stored = []
    Message.objects.bulk_create(added, batch_size=500)
    for reason in {row.eviction_reason for row in stored}:
        rows = [row for row in stored if row.eviction_reason == reason]
        conversation.messages.filter(pk__in=[row.pk for row in rows]).update(
            evicted_in=conversation.version, evicted_at=rows[0].evicted_at, eviction_reason=reason
        )


def after_commit(signal: Any, conversation: Conversation, **kwargs: Any) -> None:
    """Send a signal once the transaction is committed."""
    send = partial(signal.send_robust, sender=Conversation, conversation=conversation, **kwargs)
    transaction.on_commit(send, using=conversation._state.db, robust=True)
