"""The conversations of one owner, for adapters that store more than messages, in tables of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections, models, router
from django.db.models import F
from django.utils import timezone

from chatmemory.core.json_text import require_storable
from chatmemory.database.change import Change, Target
from chatmemory.models import Conversation
from chatmemory.models.conversation_names import named_rows
from chatmemory.models.fields import memory_id_text

# MariaDB bounds the bytes of a statement.
_BYTES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class OwnedConversations:
    """The conversations of one owner, and the settings of new ones."""

    owner: Any
    """The user; None for conversations without an owner."""

    settings: Mapping[str, Any]
    """The columns of a new conversation."""

    @property
    def database(self) -> str:
        """The alias of the database, never a replica's: the next step must read what the last one wrote."""
        return router.db_for_write(Conversation)

    @property
    def filter_of_all(self) -> dict[str, Any]:
        """The filter of what refers to any of the conversations."""
        return {"conversation__owner": self.owner}

    def filter_of(self, memory_id: Any) -> dict[str, Any]:
        """Return the filter of what refers to one conversation.

        Raises:
            ValueError: the ID is None, empty or too long.
        """
        return named_rows(self.owner, memory_id_text(memory_id), self.database)

    def change(self, memory_id: Any, work: Callable[[Change], None], *, create: bool = True) -> None:
        """Do ``work`` in one transaction, see ``alter``, and with ``create`` create a missing conversation.

        Without ``create``, nothing is done if it is missing, and the change does not count as activity.

        Raises:
            ValueError: the ID is None, empty or too long.
        """
        text = memory_id_text(memory_id)

        def new() -> Conversation:
            return Conversation(owner=self.owner, memory_id=text, **self.settings)

        alter(Target.named(self.owner, text, new if create else None), work, active=create)


def alter(target: Target, work: Callable[[Change], None], *, active: bool) -> None:
    """Do ``work`` in one transaction, under the lock of the conversation.

    Args:
        target: the conversation.
        work: see ``Target.change``.
        active: whether this counts as activity, which a purge by age looks at. If False, nothing is done if the
            conversation is missing.
    """

    def marked(change: Change) -> None:
        rows = Conversation.objects.using(target.key.database).filter(pk=change.conversation.pk)
        # Written even if it is the same: with an isolation level above READ COMMITTED, a transaction that waits for the
        # lock has an older view of the rows, and is retried only if the locked row was written.
        rows.update(updated_at=timezone.now() if active else F("updated_at"))
        work(change)

    try:
        target.change(marked)
    except Conversation.DoesNotExist:
        if active:
            raise


def storable_text(model: type[models.Model], field_name: str, value: object) -> str:
    """Return ``value`` as a text that a column of ``model`` can store.

    Raises:
        ValueError: it is too long, or no database can store it.
    """
    text = str(value)
    longest = model._meta.get_field(field_name).max_length  # type: ignore[union-attr]
    place = f"{model.__name__.lower()} {field_name}"
    if longest is not None and len(text) > longest:
        raise ValueError(f"{place} has {len(text)} characters; at most {longest} are stored: {text[:80]!r}…")
    return require_storable(text, place)


def insert(database: str, rows: Iterable[models.Model], unique: Sequence[str] = (), update: Sequence[str] = ()) -> None:
    """Insert ``rows``. Of a row that exists already, by the columns ``unique``, only the columns ``update`` change."""
    with_target = connections[database].features.supports_update_conflicts_with_target
    for batch in _batches(rows):
        manager: Any = type(batch[0])._default_manager
        manager.using(database).bulk_create(
            batch,
            ignore_conflicts=not update,
            update_conflicts=bool(update),
            update_fields=update or None,
            unique_fields=unique if update and with_target else None,
        )


def _batches(rows: Iterable[models.Model]) -> Iterator[list[models.Model]]:
    batch: list[models.Model] = []
    size = 0
    for row in rows:
        length = sum(len(value) for value in vars(row).values() if isinstance(value, (bytes, str)))
        if batch and size + length > _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch
