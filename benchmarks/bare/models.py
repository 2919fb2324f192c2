"""One row per message."""

from django.db import models

__all__ = ["BareMessage"]


class BareMessage(models.Model):
    """A message, and whose conversation it belongs to."""

    conversation = models.UUIDField(db_index=True)
    type = models.CharField(max_length=32)
    text = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
