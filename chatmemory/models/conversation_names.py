"""The names of conversations, in a table of their own where the database keeps none unique.

A database whose tables are distributed by the conversation enforces no constraint across conversations, and asks every
node for one that it knows by its memory ID only. There an app keeps a row for each name, and sets it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import UUID

from django.db import IntegrityError, connections, transaction
from django.db.models import Field

if TYPE_CHECKING:
    from chatmemory.models.conversation import Conversation

NameTexts: TypeAlias = tuple[str, ...]
"""The texts that name a conversation; none has a NUL."""

NOBODY = UUID(int=0)
"""A primary key that no conversation has."""


class Names(Protocol):
    """The names of conversations, each with the primary key that it leads to."""

    def are_kept_in(self, database: str) -> bool:
        """Return whether the database with this alias has the names."""

    def locate(self, database: str, name: NameTexts) -> UUID | None:
        """Return the primary key of the conversation that has a name; None if nothing has it."""

    def claim(self, database: str, name: NameTexts, conversation: UUID) -> UUID:
        """Give a name to a conversation unless it is taken, and return the primary key that has it now.

        The name is locked until the caller's transaction ends. The conversation may still be invisible then, because
        another node has not committed yet; a conversation is therefore made under the key that is returned.
        """

    def release(self, database: str, name: NameTexts, conversation: UUID) -> None:
        """Give up the name if ``conversation`` has it."""


_names: Names | None = None


def set_names(names: Names | None) -> None:
    """Set who keeps the names; None if the constraints of the database do."""
    global _names
    _names = names


def kept_names(database: str) -> Names | None:
    """Return who keeps the names in a database; None if its constraints do."""
    return _names if _names is not None and _names.are_kept_in(database) else None


def memory_name(conversation: Conversation, database: str) -> NameTexts:
    """Return the name that a conversation has by its owner and its memory ID."""
    field: Any = type(conversation)._meta.get_field("owner")
    return _memory_name(field.target_field, conversation.owner_id, conversation.memory_id, database)


def _memory_name(field: Field[Any, Any], owner: Any, memory_id: str, database: str) -> NameTexts:
    if owner is None:
        return "", memory_id
    # As the database casts it in the column owner_key.
    return str(field.get_db_prep_value(owner, connections[database], prepared=False)), memory_id


@contextmanager
def claiming_names(conversations: Sequence[Conversation], database: str) -> Iterator[None]:
    """Claim the names of conversations that are inserted within, in one transaction.

    Each gets the primary key that its name has. If a conversation has that already, the insert fails or passes over it,
    as it does for any key, and waits for one that is not committed yet.
    """
    names = kept_names(database)
    if names is None:
        yield
        return
    keys = [conversation.pk for conversation in conversations]
    with transaction.atomic(using=database):
        try:
            for conversation in conversations:
                conversation.pk = names.claim(database, memory_name(conversation, database), conversation.pk)
            yield
        except BaseException:
            for conversation, key in zip(conversations, keys, strict=True):
                conversation.pk = key
            raise


@contextmanager
def exchanging_name(conversation: Conversation, database: str) -> Iterator[None]:
    """Claim the new name of a stored conversation that is saved within, and release its old one, in one transaction.

    Raises:
        IntegrityError: another conversation has the name.
    """
    names = kept_names(database)
    if names is None:
        yield
        return
    with transaction.atomic(using=database):
        rows = type(conversation)._base_manager.using(database).filter(pk=conversation.pk)
        stored = rows.select_for_update().only("memory_id", "owner_id").first()
        old, new = None if stored is None else memory_name(stored, database), memory_name(conversation, database)
        if old != new and names.claim(database, new, conversation.pk) != conversation.pk:
            raise IntegrityError(f"the owner has another conversation with the memory ID {conversation.memory_id!r}")
        yield
        if old is not None and old != new:
            names.release(database, old, conversation.pk)


def key_name(scope: str, key: str) -> NameTexts:
    """Return the name that a conversation has by the idempotency key of the request that made it."""
    return "key", scope, key


def named_rows(owner: Any, memory_id: str, database: str) -> dict[str, Any]:
    """Return the filter of the rows that refer to the conversation that ``owner`` has under ``memory_id``."""
    place = located(owner, memory_id, database)
    by_name = {"conversation__owner": owner, "conversation__memory_id": memory_id}
    return by_name if place is None else {**by_name, "conversation": place}


def located(owner: Any, memory_id: str, database: str) -> UUID | None:
    """Return the primary key of the conversation that ``owner`` has under ``memory_id``, or ``NOBODY``.

    Returns:
        None where the database finds it by its name.
    """
    if (names := kept_names(database)) is None:
        return None
    name = ("", memory_id) if owner is None else _memory_name(owner._meta.pk, owner.pk, memory_id, database)
    return names.locate(database, name) or NOBODY
