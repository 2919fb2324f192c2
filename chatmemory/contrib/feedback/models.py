"""The ratings of answers by users.

A row names its message by conversation and position, because the table of messages may be divided or distributed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatmemory.models import Conversation
from chatmemory.models.deletion import cascade

LONGEST_COMMENT = 1000
"""The maximum number of characters of a comment."""


class Thumb(models.TextChoices):
    UP = "up", _("Good answer")
    DOWN = "down", _("Bad answer")


class Feedback(models.Model):
    """The rating of one answer by one user.

    ``giving.give_feedback`` writes it: it makes sure that the message is an answer, and that there is one row for each
    user and message.
    """

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="feedback", db_index=False)
    position = models.PositiveIntegerField(help_text="The position of the answer.")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=cascade,
        null=True,
        blank=True,
        related_name="+",
        help_text="Null after the user's data was anonymised, or if another database exported the row.",
    )
    value = models.CharField(max_length=4, choices=Thumb)
    comment = models.CharField(max_length=LONGEST_COMMENT, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    if TYPE_CHECKING:
        conversation_id: Any
        user_id: Any

    class Meta:
        app_label = "chatmemory_feedback"
        default_permissions = ()
        indexes = [models.Index(fields=["value", "conversation"], name="chatmemory_feedback_value")]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "position", "user"], name="chatmemory_feedback_unique"),
            models.CheckConstraint(condition=Q(value__in=Thumb.values), name="chatmemory_feedback_value_known"),
        ]

    def __str__(self) -> str:
        return f"{self.position} {self.value}"
