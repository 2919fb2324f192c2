"""What the calls of models used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils import timezone

from chatmemory.models import Conversation
from chatmemory.models.deletion import cascade

COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens")
"""The columns with numbers of tokens."""

LONGEST_NAME = 255
"""The maximum number of characters of a model's name."""


class Usage(models.Model):
    """What the call of a model used whose answer is at a position. A row never changes, and has no text.

    A count is null if the model's server did not report it.
    """

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="usage", db_index=False)
    position = models.PositiveIntegerField(help_text="The position of the answer.")
    model = models.CharField(max_length=LONGEST_NAME, help_text="The name of the model.")
    input_tokens = models.PositiveBigIntegerField(
        null=True, help_text="All tokens of the request, those from a cache included."
    )
    output_tokens = models.PositiveBigIntegerField(
        null=True, help_text="All tokens of the answer, those of its reasoning included."
    )
    cache_read_tokens = models.PositiveBigIntegerField(
        null=True, help_text="The tokens of the request that were read from a cache."
    )
    reasoning_tokens = models.PositiveBigIntegerField(
        null=True, help_text="The tokens of the answer that were reasoning."
    )
    seconds = models.FloatField(null=True, help_text="From the request to the end of the answer.")
    created_at = models.DateTimeField(default=timezone.now)

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        app_label = "chatmemory_usage"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["conversation", "position"], name="chatmemory_usage_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.position} {self.model}"


def rows_of(conversation: Conversation) -> models.QuerySet[Usage]:
    """Return the rows of a conversation, in the database from which it was read."""
    return Usage.objects.using(conversation._state.db).filter(conversation=conversation)
