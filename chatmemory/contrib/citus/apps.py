"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class CitusConfig(AppConfig):
    """The app ``"chatmemory.contrib.citus"``."""

    name = "chatmemory.contrib.citus"
    label = "chatmemory_citus"
    verbose_name = "Chat memory on Citus"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Models can be imported only now.
        from chatmemory.capabilities import register
        from chatmemory.contrib.citus.capability import CitusCapability, NameTable, connect_receiver
        from chatmemory.models.conversation_names import set_names

        set_names(NameTable())
        connect_receiver()
        register(CitusCapability())
