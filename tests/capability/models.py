"""A review for each answer."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from chatmemory.models import Conversation


class Review(models.Model):
    """Whether one answer is correct; null until somebody has reviewed it."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    position = models.PositiveIntegerField()
    correct = models.BooleanField(null=True)
    comment = models.TextField(default="")
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "reviews"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["conversation", "position"], name="reviews_unique")]

    def __str__(self) -> str:
        return f"{self.position}: {self.correct}"
