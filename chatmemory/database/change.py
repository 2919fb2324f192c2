"""A change of a conversation: lock the row, change it in one transaction, retry, write, and send signals.

A change that takes the lock begins with a statement that locks the conversation's row (on SQLite, the whole file), so
changes of one conversation queue. In a transaction of the caller, the lock is held until this transaction ends, and a
collision with other transactions is raised, because only the caller can retry. Otherwise, the change is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Literal, TypedDict, Unpack

from django.db import IntegrityError, connections, router, transaction
from django.utils import timezone

from chatmemory import signals
from chatmemory.capabilities import hooks
from chatmemory.conf import setting, window_default
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import ChatMessage
from chatmemory.database.connections import retry
from chatmemory.database.reading import ROWS_AT_ONCE, MemoryBound, chunks, is_at_the_end, rows_of
from chatmemory.database.rows import (
    CHARS_AT_ONCE,
    Row,
    chars_of,
    fits_one_statement,
    key_of,
    lock,
    message_of,
    save,
    token_count,
)
from chatmemory.database.statements import Key
from chatmemory.formats import MessageFormat, UnsupportedContentError
from chatmemory.formats.registry import message_format, one_for_one
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation, Message, Origin
from chatmemory.models.conversation import restore_on_rollback
from chatmemory.models.conversation_names import kept_names


class Terms(TypedDict, total=False):
    """The conditions of a change, and the work in its transaction."""

    precondition: Callable[[Conversation], None] | None
    """Called with the locked row before anything changes. Its exceptions end the change."""

    most: MemoryBound | None
    """The maximum memory before and after the change; beyond, the change raises ``MemoryTooLargeError``."""

    also: Callable[[Change], None] | None
    """Called with the change before the commit. Its exceptions undo the change. It is called again if the database
    rolled the transaction back.
    """


@dataclass(frozen=True)
class Target:
    """The conversation to change, in the database for writes."""

    key: Key

    new: Callable[[], Conversation] | None = None
    """Creates the unsaved row if the conversation is missing; None if it must exist."""

    instance: Conversation | None = None
    """The caller's object, which is updated with the written values."""

    precondition: Callable[[Conversation], None] | None = None

    most: MemoryBound | None = None
    """See ``Terms``. Only changes that add messages check it."""

    also: Callable[[Change], None] | None = None

    @classmethod
    def of(cls, conversation: Conversation, **terms: Unpack[Terms]) -> Target:
        """Return the target for an existing conversation.

        Raises:
            ValueError: the conversation is not saved.
        """
        if conversation._state.adding:
            raise ValueError("save the conversation before you change its memory")
        database = router.db_for_write(Conversation, instance=conversation)
        return cls(Key.of(conversation, database), instance=conversation, **terms)

    @classmethod
    def as_read(cls, conversation: Conversation, **terms: Unpack[Terms]) -> Target:
        """Return the target for an existing conversation, in the database from which it was read."""
        key = Key.of(conversation, conversation._state.db or "default")
        return cls(key, instance=conversation, **terms)

    @classmethod
    def named(
        cls, owner: Any, memory_id: str, new: Callable[[], Conversation] | None, **terms: Unpack[Terms]
    ) -> Target:
        """Return the target for the conversation with this owner and memory ID."""
        database = router.db_for_write(Conversation)
        return cls(Key.named(owner, memory_id, database), new, **terms)

    @property
    def likely_model(self) -> str:
        """The model that probably counts the conversation's tokens. The row has not been read yet."""
        return str(self.instance.model if self.instance is not None else window_default("model"))

    def change(self, work: Callable[[Change], None]) -> Change:
        """Lock the row, run ``work`` in one transaction, and return the change.

        Args:
            work: fills the empty change that it is called with. It is called again, with another change, if the
                database rolled the transaction back, so it must not rely on earlier calls.

        Raises:
            Conversation.DoesNotExist: the conversation is missing, and must not be created.
        """
        database = self.key.database

        def transact() -> Change:
            with transaction.atomic(using=database):
                known = None if self.precondition is not None else self.instance
                conversation = lock(self.key, known) or self._make()
                self._check(conversation)
                change = Change(conversation)
                work(change)
                self.update_instance(change)  # before receivers of signals use the caller's object
                if change.moment is not None:
                    for do_more in hooks("changed"):
                        do_more(change)
                if self.also is not None:
                    self.also(change)
                return change

        return retry(database, transact)

    def update_instance(self, change: Change) -> None:
        """Set the written values on the caller's object, unless the transaction is rolled back."""
        if self.instance is not None:
            names = (*WINDOW_SETTINGS, *COUNTERS, "updated_at")
            restore_on_rollback(self.instance, (*names, "_stored"), self.key.database)
            for name in names:
                setattr(self.instance, name, getattr(change.conversation, name))
            self.instance.note_stored((*WINDOW_SETTINGS, "updated_at"))

    def _check(self, conversation: Conversation) -> None:
        if self.precondition is not None:
            self.precondition(conversation)

    def _make(self) -> Conversation:
        """Insert the row and return it, locked. If another process was faster, return its row."""
        if self.new is None:
            raise Conversation.DoesNotExist("the conversation has been erased")
        new = self.new()
        self._check(new)
        if kept_names(self.key.database) is not None:
            return self._make_under_name(new)
        # On MariaDB, a failed insert leaves a lock behind, and two transactions could deadlock. An upsert leaves none,
        # and does not change an existing row.
        with_target = connections[self.key.database].features.supports_update_conflicts_with_target
        Conversation.objects.using(self.key.database).bulk_create(
            [new],
            update_conflicts=True,
            update_fields=["memory_id"],
            unique_fields=["memory_id", "owner_key"] if with_target else None,
        )
        conversation = lock(self.key)
        assert conversation is not None, "an upsert locks its row"
        return conversation

    def _make_under_name(self, new: Conversation) -> Conversation:
        """Insert the row under the primary key to which its name resolves, and return it, locked."""
        database = self.key.database
        Conversation.objects.using(database).bulk_create([new], ignore_conflicts=True)
        conversation = lock(Key.of(new, database))
        if conversation is None or (conversation.memory_id, conversation.owner_id) != (new.memory_id, new.owner_id):
            raise IntegrityError(
                f"the name {new.memory_id!r} resolves to conversation {new.pk}, which has another name: run "
                "manage.py chatmemory_verify --repair"
            )
        return conversation


Gone = tuple[Row | Message, EvictionReason]
"""An evicted row, and the reason."""


@dataclass(frozen=True, kw_only=True)
class MemorySize:
    """The size and the limit of a memory."""

    window: str
    """The unit of ``limit``: ``"messages"`` or ``"tokens"``."""

    limit: int

    messages: int
    """The number of retained messages."""

    tokens: int
    """The tokens of the retained messages."""

    version: int

    @classmethod
    def of(cls, conversation: Conversation) -> MemorySize:
        """Return the size from the counters of the row."""
        return cls(
            window=conversation.window,
            limit=conversation.limit,
            messages=conversation.retained_count,
            tokens=conversation.retained_tokens,
            version=conversation.version,
        )

    def to_data(self) -> dict[str, Any]:
        """Return ``version``, and everything else as ``memory``."""
        size = asdict(self)
        version = size.pop("version")
        return {"memory": size, "version": version}


@dataclass
class Change:
    """The result of one change of a memory."""

    conversation: Conversation

    added: list[Message] = field(default_factory=list)
    """The new rows, in the order said, followed by placeholders. Some may already be evicted."""

    gone: list[Gone] = field(default_factory=list)
    """The evicted rows, as the database returned them; ``evicted`` returns objects."""

    size: MemorySize | None = None
    """The size right after the change, if something was written. ``conversation`` may get later versions."""

    moment: datetime | None = None
    """The time of the change, if something was written."""

    @cached_property
    def evicted(self) -> list[Message]:
        """The evicted rows, each with its reason. The objects are created on first access."""
        conversation = self.conversation
        messages = []
        for row, reason in self.gone:
            message = row if isinstance(row, Message) else message_of(row, conversation._state.db or "default")
            mark_evicted(message, self.memory.version, self.moment, reason)
            messages.append(message)
        return messages

    @property
    def memory(self) -> MemorySize:
        """The size of the memory right after the change."""
        return self.size or MemorySize.of(self.conversation)

    def to_data(self, format: str) -> dict[str, Any]:
        """Return the response of ``POST messages/`` in the API: ``added``, ``evicted``, ``memory`` and ``version``.

        The data are plain, except that dates are ``datetime``, which ``JsonResponse`` writes.

        Args:
            format: the format of the messages, such as ``"langchain4j"`` or ``"openai"``.

        Raises:
            ValueError: the format is unknown, or does not express messages one by one.
        """
        chosen = message_format(format)
        items = {"added": messages_to_data(self.added, chosen), "evicted": messages_to_data(self.evicted, chosen)}
        return {**items, **self.memory.to_data()}


@dataclass(frozen=True, kw_only=True)
class WindowTrial:
    """The result of trying a window."""

    window: str
    """``"messages"`` or ``"tokens"``."""

    limit: int
    """The maximum number of messages or tokens, depending on ``window``."""

    version: int
    """The version of the memory for which the window was tried."""

    prefix_version: int
    """The version of the last change, including this one, that does more than add at the end of the memory."""

    retained: list[Message]
    """The rows that would stay, in memory order."""

    evicted: list[tuple[Message, EvictionReason]]
    """The rows that would be evicted, in order of eviction, each with its reason."""

    added: list[Message]
    """The unsaved rows of the new messages, and of placeholders, with their future positions."""

    tokens: int
    """The tokens of the rows that would stay."""

    @property
    def chars(self) -> int:
        """The characters of the rows that would stay, including attributes."""
        return sum(map(chars_of, self.retained))


def mark_evicted(message: Message, version: int, moment: datetime | None, reason: EvictionReason) -> None:
    message.evicted_in = version
    message.evicted_at = moment
    message.eviction_reason = reason.value


class MessageData(TypedDict):
    """A message, its state in the memory, and the reason for its eviction."""

    position: int

    type: str

    text: str
    """The plain text of the message; empty if it has no text."""

    message: Any
    """The message in the chosen format; None if the format cannot express it."""

    state: Literal["retained", "evicted"]

    reason: EvictionReason | None
    """The reason for the eviction; None if the message is retained."""

    token_count: int

    synthetic: bool
    """Whether ``origin`` is not ``"said"``, so that the message is not in the history."""

    origin: str
    """A value of ``Origin``."""

    written_by: str
    """Who added the message: a value of ``WrittenBy``, or empty for the project's own code."""

    covers_from: int | None
    """The first position that the message replaces, or None."""

    covers_to: int | None
    """The last position that the message replaces, or None."""

    pinned: bool

    added_in: int
    """The version of the memory in which the message was added."""

    evicted_in: int | None
    """The version of the memory in which the message was evicted."""

    evicted_at: datetime | None

    created_at: datetime | None
    """The time when the message was added; None if it was only tried."""


MESSAGE_FIELDS = list(MessageData.__annotations__)


def messages_to_data(rows: Iterable[Message], format: MessageFormat) -> list[MessageData]:
    """Return the rows of one conversation as plain data, in the same order.

    Raises:
        InvalidValueError: the format does not express messages one by one.
    """
    write = format.write_each
    if write is None:
        raise InvalidValueError(
            "%(format)s does not express messages one by one; expected one of %(choices)s",
            code="invalid_choice",
            format=format.title,
            choices=one_for_one(),
        )
    given = list(rows)
    written = _written(sorted(given, key=lambda row: row.position), write)
    return [_row_to_data(row, written[row.position]) for row in given]


def _written(rows: Sequence[Message], write: Callable[[Sequence[ChatMessage]], list[Any]]) -> dict[int, Any]:
    """Return the results of ``write``, by position."""
    try:
        # Together and in order, because a format may match tool results with their calls.
        messages = write([row.message for row in rows])
    except UnsupportedContentError:
        messages = [_written_alone(row, write) for row in rows]
    return dict(zip((row.position for row in rows), messages, strict=True))


def _written_alone(row: Message, write: Callable[[Sequence[ChatMessage]], list[Any]]) -> Any:
    try:
        return write([row.message])[0]
    except UnsupportedContentError:
        return None


def _row_to_data(row: Message, message: Any) -> MessageData:
    return {
        "position": row.position,
        "type": row.type,
        "text": row.text,
        "message": message,
        "state": "retained" if row.is_retained else "evicted",
        "reason": EvictionReason(row.eviction_reason) if row.eviction_reason else None,
        "token_count": row.token_count,
        "synthetic": row.synthetic,
        "origin": row.origin,
        "written_by": row.written_by,
        "covers_from": row.covers_from,
        "covers_to": row.covers_to,
        "pinned": row.is_pinned,
        "added_in": row.added_in,
        "evicted_in": row.evicted_in,
        "evicted_at": row.evicted_at,
        "created_at": row.created_at,
    }


def write(
    change: Change,
    added: list[Message],
    evicted: Sequence[Gone],
    *,
    rewritten: bool = False,
) -> None:
    """Write rows and counters of a locked conversation as one version, and send the signals after the commit.

    Args:
        change: the change, which is filled with the result.
        added: unsaved rows with positions and memory orders.
        evicted: stored rows, or some of ``added``.
        rewritten: whether the change is a rewrite.
    """
    update_counters(change, added, evicted)
    _write_rows(change.conversation, added, already_stored(evicted))
    send_signals(change, rewritten=rewritten)


def update_counters(change: Change, added: list[Message], evicted: Sequence[Gone]) -> None:
    """Update the counters of the conversation, unsaved, and fill the change; see ``write``."""
    conversation = change.conversation
    now = conversation.updated_at = timezone.now()
    if added or evicted:
        conversation.version += 1
    for row in added:
        row.conversation = conversation
        row.added_in = conversation.version
        row.created_at = now
        conversation.message_count += row.origin == Origin.SAID
        conversation.retained_count += 1
        conversation.retained_tokens += row.token_count
    for gone, reason in evicted:
        conversation.retained_count -= 1
        if isinstance(gone, Message):
            conversation.retained_tokens -= gone.token_count
            mark_evicted(gone, conversation.version, now, reason)
        else:
            conversation.retained_tokens -= token_count(gone)
    if evicted or not all(map(is_at_the_end, added)):
        conversation.prefix_version = conversation.version
    reasons = {reason for _, reason in evicted}
    is_cleared = EvictionReason.CLEARED in reasons and not conversation.retained_count
    if is_cleared or (EvictionReason.REWRITTEN in reasons and not setting("KEEP_HISTORY")):
        # A summary that is being written must not restore what was removed. Deleted rows do not keep their reason.
        conversation.compacted_to = conversation.next_position
    change.added, change.gone = added, list(evicted)
    change.size, change.moment = MemorySize.of(conversation), now


def write_columns(conversation: Conversation, names: Sequence[str]) -> None:
    """Write columns of a locked conversation. They may include the window's settings."""
    row = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
    row.update(**{name: getattr(conversation, name) for name in names})
    conversation.note_stored(names)


def write_version(change: Change) -> None:
    """Write a new version of a locked conversation. The memory stays the same, and so does its prefix."""
    conversation = change.conversation
    conversation.version += 1
    conversation.updated_at = timezone.now()
    write_columns(conversation, ["version", "compacted_to", "updated_at"])
    change.size, change.moment = MemorySize.of(conversation), conversation.updated_at


def already_stored(evicted: Sequence[Gone]) -> list[Gone]:
    """Return the evicted rows that were already stored. The others were added by this change."""
    return [(row, reason) for row, reason in evicted if not isinstance(row, Message) or row.pk is not None]


def send_signals(change: Change, *, rewritten: bool = False) -> None:
    """Send the signals of a change after the commit."""
    conversation = change.conversation
    if change.gone and signals.messages_evicted.has_listeners(Conversation):
        after_commit(signals.messages_evicted, conversation, messages=change.evicted)
    if rewritten:
        after_commit(signals.memory_rewritten, conversation, messages=change.added)
    elif change.added:
        after_commit(signals.messages_added, conversation, messages=change.added)


def _write_rows(conversation: Conversation, added: list[Message], evicted: list[Gone]) -> None:
    if not setting("KEEP_HISTORY"):
        for chunk in chunks(evicted):
            delete_rows(conversation, [key_of(row) for row, _ in chunk])
        kept = [row for row in added if row.evicted_in is None]
        conversation.purged_count += len(evicted) + len(added) - len(kept)
        added, evicted = kept, []
    if not fits_one_statement(added):
        longest = max(map(chars_of, added))
        batch_size = max(1, min(ROWS_AT_ONCE, CHARS_AT_ONCE // max(1, longest)))
        Message.objects.using(conversation._state.db).bulk_create(added, batch_size=batch_size)
        added = []
    save(conversation, added, evicted)


def delete_rows(conversation: Conversation, keys: Collection[int]) -> int:
    """Delete messages by their primary keys, and what capabilities keep of them. Return the number of messages."""
    rows = rows_of(conversation).filter(pk__in=keys)
    if forgets := hooks("erased"):
        positions = set(rows.order_by().values_list("position", flat=True))
        for forget in forgets:
            forget(conversation, positions)
    return rows.delete()[1].get(Message._meta.label, 0)


def after_commit(signal: Any, conversation: Conversation, **kwargs: Any) -> None:
    """Send a signal after the commit."""
    if not signal.has_listeners(Conversation):
        return
    send = partial(signal.send_robust, sender=Conversation, conversation=conversation, **kwargs)
    transaction.on_commit(send, using=conversation._state.db, robust=True)
