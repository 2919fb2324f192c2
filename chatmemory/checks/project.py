"""The system checks of what a project has beside the settings: its apps and its databases."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error
from django.db import router
from django.urls import URLResolver, get_resolver

from chatmemory.models.conversation_names import kept_names

__all__ = ["check_apps", "check_databases"]

_APPS_WITH_PAGES = ("rest_framework", "django_filters")


def check_apps(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each app without which the pages of the REST API for a browser cannot be shown."""
    missing = [name for name in _APPS_WITH_PAGES if not apps.is_installed(name)]
    if not (missing and getattr(settings, "ROOT_URLCONF", None) and _has_api(get_resolver()) and _has_pages()):
        return []
    return [
        Error(
            f"The pages of the REST API need {name!r}, which is not in INSTALLED_APPS.",
            hint=f'Add "{name}" to INSTALLED_APPS, or take the BrowsableAPIRenderer out of '
            'REST_FRAMEWORK["DEFAULT_RENDERER_CLASSES"].',
            id="chatmemory.E024",
        )
        for name in missing
    ]


def check_databases(**kwargs: Any) -> list[CheckMessage]:
    """Return an error if a router sends tables that refer to each other to several databases."""
    user = get_user_model()
    users = router.db_for_write(user)
    if kept_names(users) is not None:
        return []  # the tables are distributed by the conversation, and each node is the same database
    return [
        Error(
            f"{model._meta.label} is written to the database {database!r}, but {user._meta.label} to {users!r}.",
            hint=f"Let DATABASE_ROUTERS send {user._meta.label} and all models of chatmemory to one database, because "
            "their rows refer to each other.",
            id="chatmemory.E025",
        )
        for model in apps.get_models()
        if model.__module__.startswith("chatmemory.") and (database := router.db_for_write(model)) != users
    ]


def _has_api(resolver: URLResolver) -> bool:
    found = [pattern for pattern in resolver.url_patterns if isinstance(pattern, URLResolver)]
    return any(pattern.app_name == "chatmemory" or _has_api(pattern) for pattern in found)


def _has_pages() -> bool:
    from rest_framework.renderers import BrowsableAPIRenderer
    from rest_framework.settings import api_settings

    renderers: Any = api_settings.DEFAULT_RENDERER_CLASSES
    return any(issubclass(renderer, BrowsableAPIRenderer) for renderer in renderers)
