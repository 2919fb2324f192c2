"""The capability of this app: a table of the names of conversations, kept, released and verified."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import QuerySet
from django.db.models.signals import pre_delete

from chatmemory.capabilities import Capability
from chatmemory.contrib.citus.checking import wrong_names
from chatmemory.contrib.citus.models import Name, digest_of
from chatmemory.database.connections import retry
from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.models.conversation_names import NameTexts, kept_names, memory_name
from chatmemory.verification import Finding


class CitusCapability(Capability):
    """The names of conversations are compared with these."""

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        return () if kept_names(conversations.db) is None else wrong_names(conversations, repair=repair)


_CLAIM = (
    "INSERT INTO {table} (digest, conversation_id) VALUES (%s, %s) "
    # An update that changes nothing locks the row, and returns it with any value.
    "ON CONFLICT (digest) DO UPDATE SET conversation_id = {table}.conversation_id RETURNING conversation_id"
)


class NameTable:
    """The names, a row each; see ``chatmemory.models.conversation_names.Names``."""

    def are_kept_in(self, database: str) -> bool:
        return connections[database].vendor == "postgresql"

    def locate(self, database: str, name: NameTexts) -> UUID | None:
        rows = Name.objects.using(database).filter(digest=digest_of(name))
        found: UUID | None = retry(database, rows.values_list("conversation_id", flat=True).first)
        return found

    def claim(self, database: str, name: NameTexts, conversation: UUID) -> UUID:
        connection = connections[database]
        table = connection.ops.quote_name(Name._meta.db_table)
        with connection.cursor() as cursor:
            cursor.execute(_CLAIM.format(table=table), [digest_of(name), conversation])
            found: UUID = cursor.fetchone()[0]
        return found

    def release(self, database: str, name: NameTexts, conversation: UUID) -> None:
        Name.objects.using(database).filter(digest=digest_of(name), conversation_id=conversation).delete()


def connect_receiver() -> None:
    """Release the names of conversations that are deleted."""
    pre_delete.connect(_release_names, Conversation, dispatch_uid="chatmemory.contrib.citus.capability")


def _release_names(instance: Conversation, using: str, **_: Any) -> None:
    names = kept_names(using)
    if names is None:
        return
    # The object may have been read before another process renamed the conversation.
    rows = Conversation.objects.using(using).filter(pk=instance.pk)
    stored = rows.select_for_update().only("memory_id", "owner_id").first()
    if stored is None:
        return
    names.release(using, memory_name(stored, using), instance.pk)
    # Keys are deleted with their conversation by one statement, which sends no signals.
    IdempotencyKey.objects.using(using).filter(conversation=stored).release_names()
