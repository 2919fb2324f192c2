"""A thumb for each answer."""

from __future__ import annotations

from django.db import models

from chatmemory.models import Conversation


class Thumb(models.Model):
    """What somebody thinks of one answer; null until they say it."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    position = models.PositiveIntegerField()
    up = models.BooleanField(null=True)
    comment = models.TextField(default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "thumbs"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["conversation", "position"], name="thumbs_unique")]

    def __str__(self) -> str:
        return f"{self.position}: {self.up}"
