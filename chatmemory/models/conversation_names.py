"""The names of conversations, in a separate table for databases that cannot keep names unique.

A database whose tables are distributed by conversation enforces no constraint across conversations, and asks every node
for a conversation of which it knows only the memory ID. For such databases, an app stores a row for each name, and
registers itself here.
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
"""The texts of a conversation's name; none contains NUL."""

NOBODY = UUID(int=0)
"""A primary key that does not exist."""


class Names(Protocol):
    """The names of conversations, with the primary keys to which they resolve."""

    def are_kept_in(self, database: str) -> bool:
        """Return whether the database has a separate table of names."""

    def locate(self, database: str, name: NameTexts) -> UUID | None:
        """Return the primary key of the conversation with this name, or None."""

    def claim(self, database: str, name: NameTexts, conversation: UUID) -> UUID:
        """Give a name to a conversation unless it is taken. Return the primary key of the conversation with this name.

        The name is locked until the caller's transaction ends. The conversation may not be visible yet, because another
        node has not committed. Therefore, create a conversation under the returned primary key.
        """

    def release(self, database: str, name: NameTexts, conversation: UUID) -> None:
        """Release the name if it belongs to ``conversation``."""


_names: Names | None = None


def set_names(names: Names | None) -> None:
    """Register the app that stores names; None if the constraints of the database suffice."""
    global _names
    _names = names


def kept_names(database: str) -> Names | None:
    """Return the app that stores the names of a database; None if its constraints suffice."""
    return _names if _names is not None and _names.are_kept_in(database) else None


def memory_name(conversation: Conversation, database: str) -> NameTexts:
    """Return the name of a conversation: its owner and its memory ID."""
    field: Any = type(conversation)._meta.get_field("owner")
    return _memory_name(field.target_field, conversation.owner_id, conversation.memory_id, database)


def _memory_name(field: Field[Any, Any], owner: Any, memory_id: str, database: str) -> NameTexts:
    if owner is None:
        return "", memory_id
    # As the database casts it in the column owner_key.
    return str(field.get_db_prep_value(owner, connections[database], prepared=False)), memory_id


@contextmanager
def claiming_names(conversations: Sequence[Conversation], database: str) -> Iterator[None]:
    """Claim the names of conversations that are inserted in the ``with`` block, in one transaction.

    Each gets the primary key of its name. If a conversation already has this key, the insert fails or ignores the row,
    as for any key, and waits for uncommitted ones.
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
    """Claim the new name of a stored conversation that is saved in the ``with`` block, and release the old name.

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
    """Return the name of a conversation by the idempotency key of the request that created it."""
    return "key", scope, key


def named_rows(owner: Any, memory_id: str, database: str) -> dict[str, Any]:
    """Return the filter for rows that refer to the conversation with this owner and memory ID."""
    place = located(owner, memory_id, database)
    by_name = {"conversation__owner": owner, "conversation__memory_id": memory_id}
    return by_name if place is None else {**by_name, "conversation": place}


def located(owner: Any, memory_id: str, database: str) -> UUID | None:
    """Return the primary key of the conversation with this owner and memory ID, or ``NOBODY``.

    Returns:
        None if the database finds the conversation by its name.
    """
    if (names := kept_names(database)) is None:
        return None
    name = ("", memory_id) if owner is None else _memory_name(owner._meta.pk, owner.pk, memory_id, database)
    return names.locate(database, name) or NOBODY
