"""The threads of one owner: each is the conversation whose memory ID is the thread's ID."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections, models, router
from django.db.models import F, QuerySet
from django.utils import timezone

from chatmemory.contrib.langgraph.models import Namespace
from chatmemory.core.json_text import require_storable
from chatmemory.database.change import Change, Target
from chatmemory.models import Conversation
from chatmemory.models.conversation_names import named_rows
from chatmemory.models.fields import memory_id_text

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

# MariaDB bounds the bytes of a statement.
_BYTES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Threads:
    """The threads of one owner, the settings of new ones, and what serialises their states and values."""

    owner: Any
    """The user; None for threads without an owner."""

    settings: Mapping[str, Any]
    """The columns of a conversation that a new thread creates."""

    serde: SerializerProtocol

    @property
    def database(self) -> str:
        """The alias of the database, never a replica's: the next step must read what the last one wrote."""
        return router.db_for_write(Conversation)

    @property
    def filter_of_all(self) -> dict[str, Any]:
        """The filter of what refers to the conversation of any thread."""
        return {"conversation__owner": self.owner}

    def filter_of(self, thread_id: Any) -> dict[str, Any]:
        """Return the filter of what refers to the conversation of one thread.

        Raises:
            ValueError: the ID is None, empty or too long.
        """
        return named_rows(self.owner, memory_id_text(thread_id), self.database)

    def namespaces_of(self, thread_id: Any) -> QuerySet[Namespace]:
        """Return the namespaces of one thread, see ``filter_of``."""
        return Namespace.objects.using(self.database).filter(**self.filter_of(thread_id))

    def change(self, thread_id: Any, work: Callable[[Change], None], *, create: bool = True) -> None:
        """Do ``work`` in one transaction, see ``alter``, and with ``create`` create a missing conversation.

        Without ``create``, nothing is done if it is missing, and the change does not count as activity.

        Raises:
            ValueError: the ID is None, empty or too long.
        """
        memory_id = memory_id_text(thread_id)

        def new() -> Conversation:
            return Conversation(owner=self.owner, memory_id=memory_id, **self.settings)

        alter(Target.named(self.owner, memory_id, new if create else None), work, active=create)


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
        # lock has an older view of the thread, and is retried only if the locked row was written.
        rows.update(updated_at=timezone.now() if active else F("updated_at"))
        work(change)

    try:
        target.change(marked)
    except Conversation.DoesNotExist:
        if active:
            raise


def namespace_of(conversation: Conversation, name: str) -> Namespace:
    """Return the namespace of a locked conversation; create it if it is missing."""
    found, _ = Namespace.objects.using(conversation._state.db).get_or_create(conversation=conversation, name=name)
    return found


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
        length = sum(len(value) for value in vars(row).values() if isinstance(value, bytes))
        if batch and size + length > _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch
