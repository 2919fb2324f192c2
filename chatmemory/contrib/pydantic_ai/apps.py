"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ChatmemoryPydanticAiConfig(AppConfig):
    """The app: ``"chatmemory.contrib.pydantic_ai"`` in ``INSTALLED_APPS``, besides ``"chatmemory"``."""

    name = "chatmemory.contrib.pydantic_ai"
    label = "chatmemory_pydantic_ai"
    verbose_name = "Pydantic AI conversations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Models can be imported only now.
        from chatmemory.capabilities import register
        from chatmemory.contrib.pydantic_ai.capability import PydanticAiCapability

        register(PydanticAiCapability())
