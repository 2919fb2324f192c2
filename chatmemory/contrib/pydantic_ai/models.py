"""Pydantic AI's conversations in two tables: a record for each conversation, and its entries.

A fork has copies of the entries that it shares, with the same IDs, so each conversation is read, erased and exported by
itself. Identifiers are compared character by character.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.utils import timezone

from chatmemory.database.reading import chunks
from chatmemory.models import Conversation
from chatmemory.models.deletion import cascade
from chatmemory.models.fields import ExactCharField


class RowQuerySet(models.QuerySet[Any]):
    """Rows of conversations."""

    def of(self, conversation: Conversation) -> Self:
        """Return those of a conversation, in the database from which it was read."""
        return self.using(conversation._state.db).filter(conversation=conversation)


class EntryQuerySet(RowQuerySet):
    """Entries of one conversation."""

    def links(self) -> dict[str, str | None]:
        """Return the entry that each follows, by ID."""
        return dict(self.values_list("entry_id", "parent_id"))

    def in_order(self, entry_ids: list[str]) -> list[Entry]:
        """Return the entries with these IDs, in their order.

        Raises:
            KeyError: there is no such entry.
        """
        found = {row.entry_id: row for part in chunks(entry_ids) for row in self.filter(entry_id__in=part)}
        return [found[entry_id] for entry_id in entry_ids]


def history_to(head_id: str | None, links: Mapping[str, str | None], limit: int | None = None) -> list[str]:
    """Return the IDs of the entries from the first one up to ``head_id``, in order, or of the last ``limit`` of them.

    Raises:
        KeyError: ``links`` lacks one of them.
    """
    found: list[str] = []
    while head_id is not None and (limit is None or len(found) < limit):
        found.append(head_id)
        head_id = links[head_id]
    return found[::-1]


class Record(models.Model):
    """Pydantic AI's record of a conversation, without its entries."""

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="+", db_index=False)
    head_id = ExactCharField(max_length=64, null=True, help_text="The newest entry; null if there is none.")
    usage = models.JSONField(help_text="The usage of all runs.")
    deferred_tool_requests = models.TextField(
        null=True, help_text="The tool calls that the conversation is waiting for, as JSON; null if there are none."
    )
    scope = ExactCharField(max_length=255, null=True, help_text="Whose or where the conversation is.")
    forked_from = ExactCharField(max_length=255, null=True, help_text="The ID of the conversation that was forked.")
    forked_at = ExactCharField(max_length=64, null=True, help_text="The last entry that the fork kept.")
    branches = models.JSONField(help_text="The last entries of the branches that the conversation left, oldest first.")
    revision = ExactCharField(max_length=64, help_text="Changes on every save.")
    updated_at = models.DateTimeField()
    format_version = models.PositiveSmallIntegerField()

    objects = RowQuerySet.as_manager()

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        # Not found by its place: where only chatmemory is installed, an import would give the tables to chatmemory.
        app_label = "chatmemory_pydantic_ai"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["conversation"], name="chatmemory_pai_record_unique")]

    def __str__(self) -> str:
        return str(self.revision)


class Entry(models.Model):
    """One message of a conversation, and the entry that it follows."""

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="+", db_index=False)
    entry_id = ExactCharField(max_length=64, db_index=True)
    parent_id = ExactCharField(max_length=64, null=True, help_text="The entry before; null for the first.")
    kind = models.CharField(max_length=32)
    message = models.TextField(help_text="Pydantic AI's message, as JSON.")
    created_at = models.DateTimeField(default=timezone.now)

    objects = EntryQuerySet.as_manager()

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        app_label = "chatmemory_pydantic_ai"
        default_permissions = ()
        verbose_name_plural = "entries"
        constraints = [
            models.UniqueConstraint(fields=["conversation", "entry_id"], name="chatmemory_pai_entry_unique"),
        ]

    def __str__(self) -> str:
        return str(self.entry_id)
