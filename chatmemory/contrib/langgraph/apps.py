"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig

__all__ = ["ChatmemoryLanggraphConfig"]


class ChatmemoryLanggraphConfig(AppConfig):
    """The app: ``"chatmemory.contrib.langgraph"`` in ``INSTALLED_APPS``, besides ``"chatmemory"``."""

    name = "chatmemory.contrib.langgraph"
    label = "chatmemory_langgraph"
    verbose_name = "LangGraph checkpoints"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatmemory.contrib.langgraph import receivers  # noqa: F401  # connects them
