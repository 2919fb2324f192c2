"""How a change gets into the rows of a conversation: lock, write, tell.

The first statement of every change locks the conversation's row, on SQLite the whole file, so changes of one
conversation queue. Inside a transaction of the caller's the lock is held until that one ends; there a collision with
other transactions reaches the caller, who alone can begin anew. Elsewhere the change is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeVar

from django.db import connections, router, transaction
from django.utils import timezone

from chatmemory import signals
from chatmemory.conf import setting
from chatmemory.eviction import EvictionReason
from chatmemory.hot_path import MOST_ROWS, Key, Row, essentials, lock, long_texts, message_of, primary_key, save
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation, Message, MessageQuerySet
from chatmemory.retrying import retried

__all__ = ["Change", "MemorySize", "Target", "after_commit", "chunks", "rows_of", "write"]

T = TypeVar("T")

Gone = tuple[Row | Message, EvictionReason]
"""What left the memory, and why."""

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

    @classmethod
    def of(cls, conversation: Conversation) -> MemorySize:
        """As the counters have it."""
        return cls(
            window=conversation.window,
            limit=conversation.limit,
            messages=conversation.retained_count,
            tokens=conversation.retained_tokens,
            version=conversation.version,
        )


@dataclass
class Change:
    """What a change did."""

    conversation: Conversation
    """As it is after the change."""

    added: list[Message] = field(default_factory=list)
    """The new rows, in the order said. Some may be evicted already."""

    gone: list[Gone] = field(default_factory=list)
    """What :attr:`evicted` is made of."""

    size: MemorySize | None = None
    """What :attr:`memory` was, once something was written: :attr:`conversation` may go on to later versions."""

    moment: datetime | None = None
    """When that was."""

    @cached_property
    def evicted(self) -> list[Message]:
        """The rows that left the memory, each with its reason; made when somebody asks."""
        conversation = self.conversation
        messages = []
        for row, reason in self.gone:
            message = row if isinstance(row, Message) else message_of(row, conversation._state.db or "default")
            _mark_evicted(message, self.memory.version, self.moment, reason)
            messages.append(message)
        return messages

    @property
    def memory(self) -> MemorySize:
        """The memory right after the change."""
        return self.size or MemorySize.of(self.conversation)


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
                conversation = lock(self.key, None if self.precondition is not None else self.instance)
                if conversation is None:
                    return None
                self._check(conversation)
                change = Change(conversation)
                work(change)
                self.learn(change)  # before receivers hear of it, who may use the caller's object
                return change

        for _attempt in range(10):
            change = retried(database, transact)
            if change is not None:
                break
            retried(database, self._make)
        else:
            raise Conversation.DoesNotExist("the conversation is erased whenever it is made")
        return change

    def learn(self, change: Change) -> None:
        """Let the caller's object know what its row has become."""
        if self.instance is not None:
            for name in (*WINDOW_SETTINGS, *COUNTERS, "updated_at"):
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
    evicted: Sequence[Gone],
    *,
    rewritten: bool = False,
) -> None:
    """Write rows and counters of a locked conversation, as one version, and tell the receivers when it is committed.

    Args:
        change: becomes the account of it.
        added: unsaved rows that have their places.
        evicted: stored rows, or some of ``added``.
        rewritten: whether the memory was set anew.
    """
    account(change, added, evicted)
    _write_rows(change.conversation, added, stored(evicted))
    tell(change, rewritten=rewritten)


def account(change: Change, added: list[Message], evicted: Sequence[Gone]) -> None:
    """Count what is to be written, see :func:`write`."""
    conversation = change.conversation
    now = conversation.updated_at = timezone.now()
    if added or evicted:
        conversation.version += 1
    for row in added:
        row.conversation = conversation
        row.added_in = conversation.version
        row.created_at = now
        conversation.message_count += not row.synthetic
        conversation.retained_count += 1
        conversation.retained_tokens += row.token_count
    for gone, reason in evicted:
        conversation.retained_count -= 1
        if isinstance(gone, Message):
            conversation.retained_tokens -= gone.token_count
            _mark_evicted(gone, conversation.version, now, reason)
        else:
            conversation.retained_tokens -= essentials(gone)[-1]
    change.added, change.gone = added, list(evicted)
    change.size, change.moment = MemorySize.of(conversation), now


def stored(evicted: Sequence[Gone]) -> list[Gone]:
    """Those that are in the database already."""
    return [(row, reason) for row, reason in evicted if not isinstance(row, Message) or row.pk is not None]


def tell(change: Change, *, rewritten: bool = False) -> None:
    """Tell the receivers of a change when it is committed."""
    conversation = change.conversation
    if change.gone and signals.messages_evicted.has_listeners(Conversation):
        after_commit(signals.messages_evicted, conversation, messages=change.evicted)
    if rewritten:
        after_commit(signals.memory_rewritten, conversation, messages=change.added)
    elif change.added:
        after_commit(signals.messages_added, conversation, messages=change.added)


def _mark_evicted(message: Message, version: int, moment: datetime | None, reason: EvictionReason) -> None:
    message.evicted_in = version
    message.evicted_at = moment
    message.eviction_reason = reason.value


def fits_one_statement(added: Sequence[Message], evicted: Sequence[Gone]) -> bool:
    """Whether so many rows, as long as they are, can be written in one statement."""
    chars = sum(map(_chars, added)) + sum(_chars(row) for row, _ in evicted)
    return len(added) + len(evicted) <= MOST_ROWS and chars <= _CHARS_AT_ONCE


def _write_rows(conversation: Conversation, added: list[Message], evicted: list[Gone]) -> None:
    if not setting("KEEP_HISTORY"):
        for chunk in chunks(evicted):
            rows_of(conversation).filter(pk__in=[_key(row) for row, _ in chunk]).delete()
        kept = [row for row in added if row.evicted_in is None]
        conversation.purged_count += len(evicted) + len(added) - len(kept)
        added, evicted = kept, []
    if fits_one_statement(added, evicted):
        save(conversation, added, evicted)
        return
    longest = max(map(_chars, added), default=0)
    batch_size = max(1, min(_ROWS_AT_ONCE, _CHARS_AT_ONCE // max(1, longest)))
    Message.objects.using(conversation._state.db).bulk_create(added, batch_size=batch_size)
    for reason in sorted({reason for _, reason in evicted}):
        for keys in chunks([_key(row) for row, why in evicted if why is reason]):
            rows_of(conversation).filter(pk__in=keys).update(
                evicted_in=conversation.version, evicted_at=conversation.updated_at, eviction_reason=reason.value
            )
    save(conversation, [], [])


def _key(row: Row | Message) -> Any:
    return row.pk if isinstance(row, Message) else primary_key(row)


def _chars(row: Row | Message) -> int:
    long = (row.text, row.payload, row.native) if isinstance(row, Message) else long_texts(row)
    return sum(len(text or "") for text in long)


def chunks(rows: list[T]) -> Iterator[list[T]]:
    """``rows`` in parts that one statement can name."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]


def after_commit(signal: Any, conversation: Conversation, **kwargs: Any) -> None:
    """Send a signal once the transaction is committed."""
    if not signal.has_listeners(Conversation):
        return
    send = partial(signal.send_robust, sender=Conversation, conversation=conversation, **kwargs)
    transaction.on_commit(send, using=conversation._state.db, robust=True)
