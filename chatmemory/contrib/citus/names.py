"""The names of conversations as rows."""

from __future__ import annotations

from uuid import UUID

from django.db import connections

from chatmemory.contrib.citus.models import Name, digest_of
from chatmemory.database.retry import retry
from chatmemory.models.conversation_names import NameTexts

__all__ = ["NameTable"]

_CLAIM = (
    "INSERT INTO {table} (digest, conversation_id) VALUES (%s, %s) "
    # An update that changes nothing locks the row, and returns it whatever it has.
    "ON CONFLICT (digest) DO UPDATE SET conversation_id = {table}.conversation_id RETURNING conversation_id"
)


class NameTable:
    """The names, a row each; see :class:`chatmemory.models.conversation_names.Names`."""

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
