"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChatmemoryUsageConfig(AppConfig):
    """The app: ``"chatmemory.contrib.usage"`` in ``INSTALLED_APPS``, besides ``"chatmemory"``."""

    name = "chatmemory.contrib.usage"
    label = "chatmemory_usage"
    verbose_name = _("Usage")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Models can be imported only now.
        from chatmemory.capabilities import register
        from chatmemory.contrib.usage.capability import UsageCapability
        from chatmemory.contrib.usage.recording import arecord_usage, connect_receiver, record_usage
        from chatmemory.models import Conversation

        Conversation.add_to_class("record_usage", record_usage)
        Conversation.add_to_class("arecord_usage", arecord_usage)
        connect_receiver()
        register(UsageCapability())
