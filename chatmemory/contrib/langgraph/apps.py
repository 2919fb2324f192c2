"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ChatmemoryLanggraphConfig(AppConfig):
    """The app: ``"chatmemory.contrib.langgraph"`` in ``INSTALLED_APPS``, besides ``"chatmemory"``."""

    name = "chatmemory.contrib.langgraph"
    label = "chatmemory_langgraph"
    verbose_name = "LangGraph checkpoints"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Models can be imported only now.
        from chatmemory.capabilities import register
        from chatmemory.contrib.langgraph.capability import LanggraphCapability

        register(LanggraphCapability())
