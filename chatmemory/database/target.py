"""The conversation that an operation changes: found, locked, changed in one transaction, and tried again.

The first statement of a change that takes the lock locks the conversation's row, on SQLite the whole file, so changes
of one conversation queue. Inside a transaction of the caller's the lock is held until that one ends; there a collision
with other transactions reaches the caller, who alone can begin again. Elsewhere the change is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from django.db import IntegrityError, connections, router, transaction

from chatmemory.capabilities import hooks
from chatmemory.conf import window_default
from chatmemory.database.change import Change
from chatmemory.database.connections import retry
from chatmemory.database.key import Key
from chatmemory.database.reading import MemoryBound
from chatmemory.database.sql.reads import lock
from chatmemory.models import COUNTERS, WINDOW_SETTINGS, Conversation
from chatmemory.models.conversation import restore_on_rollback
from chatmemory.models.conversation_names import kept_names


class Terms(TypedDict, total=False):
    """What a caller demands of a change, and does in the same transaction."""

    precondition: Callable[[Conversation], None] | None
    """Called with the locked row before anything changes; what it raises ends the change."""

    most: MemoryBound | None
    """The largest memory that the change may find or leave; beyond, it raises ``MemoryTooLargeError``."""

    also: Callable[[Change], None] | None
    """Called with the change before it is committed; what it raises undoes the change. It is called again if the
    database rolled the transaction back."""


@dataclass(frozen=True)
class Target:
    """The conversation that a change is made of, on the database that is written to."""

    key: Key

    new: Callable[[], Conversation] | None = None
    """Makes the unsaved row of a conversation that may be missing; None if it must be there."""

    instance: Conversation | None = None
    """The caller's object, which is updated with what the change wrote to its row."""

    precondition: Callable[[Conversation], None] | None = None
    """See :class:`Terms`."""

    most: MemoryBound | None = None
    """See :class:`Terms`. Only changes that bring in messages heed it."""

    also: Callable[[Change], None] | None = None
    """See :class:`Terms`."""

    @classmethod
    def of(cls, conversation: Conversation, **terms: Unpack[Terms]) -> Target:
        """Return the target for an existing conversation.

        Raises:
            ValueError: it was never saved.
        """
        if conversation._state.adding:
            raise ValueError("save the conversation before you change its memory")
        database = router.db_for_write(Conversation, instance=conversation)
        return cls(Key.of(conversation, database), instance=conversation, **terms)

    @classmethod
    def as_read(cls, conversation: Conversation, **terms: Unpack[Terms]) -> Target:
        """Return the target for an existing conversation, on the very database that it was read from."""
        key = Key.of(conversation, conversation._state.db or "default")
        return cls(key, instance=conversation, **terms)

    @classmethod
    def named(
        cls, owner: Any, memory_id: str, new: Callable[[], Conversation] | None, **terms: Unpack[Terms]
    ) -> Target:
        """Return the target for the conversation that ``owner`` has under ``memory_id``."""
        database = router.db_for_write(Conversation)
        return cls(Key.named(owner, memory_id, database), new, **terms)

    @property
    def likely_model(self) -> str:
        """The model that the conversation's tokens are counted by, as far as is known before its row is read."""
        return str(self.instance.model if self.instance is not None else window_default("model"))

    def change(self, work: Callable[[Change], None]) -> Change:
        """Lock the row, do ``work`` on it in one transaction, and return the change.

        Args:
            work: fills the empty change that it is called with. It is called again, with another one, if the database
                rolled the transaction back, so it must not rely on what it did before.

        Raises:
            Conversation.DoesNotExist: the conversation is missing, and must not be made.
        """
        database = self.key.database

        def transact() -> Change:
            with transaction.atomic(using=database):
                known = None if self.precondition is not None else self.instance
                conversation = lock(self.key, known) or self._make()
                self._check(conversation)
                change = Change(conversation)
                work(change)
                self.update_instance(change)  # before signals are sent, whose receivers may use the caller's object
                if change.moment is not None:
                    for do_more in hooks("changed"):
                        do_more(change)
                if self.also is not None:
                    self.also(change)
                return change

        return retry(database, transact)

    def update_instance(self, change: Change) -> None:
        """Set what the change wrote on the caller's object, unless the transaction is rolled back."""
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
        """Insert the row and return it, locked; if another process was faster, return the row of that one."""
        if self.new is None:
            raise Conversation.DoesNotExist("the conversation has been erased")
        new = self.new()
        self._check(new)
        if kept_names(self.key.database) is not None:
            return self._make_under_name(new)
        # On MariaDB a failed insert leaves a lock behind, and two transactions could deadlock. An upsert leaves none,
        # and changes nothing of a row that is there.
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
        """Insert the row under the primary key that its name has, and return it, locked."""
        database = self.key.database
        Conversation.objects.using(database).bulk_create([new], ignore_conflicts=True)
        conversation = lock(Key.of(new, database))
        if conversation is None or (conversation.memory_id, conversation.owner_id) != (new.memory_id, new.owner_id):
            raise IntegrityError(
                f"the name {new.memory_id!r} leads to conversation {new.pk}, which has another one: run "
                "manage.py chatmemory_verify --repair"
            )
        return conversation
