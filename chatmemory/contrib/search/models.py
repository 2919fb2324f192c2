"""The index: for each conversation, segments of consecutive positions, and their pages of postings.

Document ``n`` of a segment is the message at position ``start + n``. Only messages that were said and have text are
documents; the other numbers stay free. A segment and its pages are replaced as a whole, never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils import timezone

from chatmemory.models import Conversation
from chatmemory.models.deletion import cascade

EVERY = 64
"""After so many positions, a conversation is indexed."""


class Progress(models.Model):
    """How far a conversation is indexed. Locked while the index of the conversation changes."""

    conversation = models.OneToOneField(Conversation, on_delete=cascade, related_name="+")
    indexed_to = models.PositiveIntegerField(
        default=0, help_text="All messages before this position are in segments; a multiple of 8."
    )
    erasures = models.PositiveIntegerField(
        default=0, help_text="How often documents were erased. Text that was read before this changed is not indexed."
    )

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        app_label = "chatmemory_search"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.conversation_id} {self.indexed_to}"


class Segment(models.Model):
    """The documents of consecutive positions."""

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="+", db_index=False)
    start = models.PositiveIntegerField(help_text="The position of document 0; a multiple of 8.")
    size = models.PositiveIntegerField(help_text="The number of positions, a multiple of 8 and at most 65,536.")
    facts = models.BinaryField(help_text="Eight bitmaps: five with the classes of lengths, three with the types.")
    times = models.BinaryField(help_text="Compressed: when each message was said, in microseconds since 1970.")
    oldest = models.BigIntegerField(help_text="The first of these times.")
    newest = models.BigIntegerField(help_text="The last of these times.")
    tokens = models.BinaryField(help_text="The first token of each page, with newlines between them.")
    pages = models.BinaryField(help_text="The primary keys of the pages, 8 bytes each.")

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        app_label = "chatmemory_search"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["conversation", "start"], name="chatmemory_search_segment_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id} {self.start}-{self.start + self.size}"


class Page(models.Model):
    """The postings of some consecutive tokens of a segment: see ``postings``."""

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="+")
    data = models.BinaryField()

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        app_label = "chatmemory_search"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)


class Quoted(models.Model):
    """The messages that a model got as quotations in one turn. Only their positions are stored."""

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="+", db_index=False)
    version = models.PositiveIntegerField(help_text="The version of the memory at which they were looked up.")
    position = models.PositiveIntegerField(help_text="The position of the last message of that version.")
    positions = models.JSONField(help_text="The positions of the messages, some of which may be deleted now.")
    created_at = models.DateTimeField(default=timezone.now)

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        app_label = "chatmemory_search"
        default_permissions = ()
        indexes = [models.Index(fields=["conversation", "version"], name="chatmemory_search_quoted_turn")]

    def __str__(self) -> str:
        return f"{self.conversation_id} {self.version}"
