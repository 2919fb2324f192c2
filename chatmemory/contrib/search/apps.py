"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ChatmemorySearchConfig(AppConfig):
    """The app: ``"chatmemory.contrib.search"`` in ``INSTALLED_APPS``, besides ``"chatmemory"``."""

    name = "chatmemory.contrib.search"
    label = "chatmemory_search"
    verbose_name = "Search"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Models can be imported only now.
        from chatmemory.capabilities import register
        from chatmemory.contrib.search.capability import SearchCapability, install

        register(SearchCapability())
        install()
