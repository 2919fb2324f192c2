"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ChatmemoryFeedbackConfig(AppConfig):
    """The app: ``"chatmemory.contrib.feedback"`` in ``INSTALLED_APPS``, besides ``"chatmemory"``."""

    name = "chatmemory.contrib.feedback"
    label = "chatmemory_feedback"
    verbose_name = "Feedback"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Models can be imported only now.
        from chatmemory.capabilities import register
        from chatmemory.contrib.feedback.capability import FeedbackCapability

        register(FeedbackCapability())
