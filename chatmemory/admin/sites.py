"""The admin of conversations that a site has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.admin import AdminSite

from chatmemory.models import Conversation

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

__all__ = ["conversation_admin"]


def conversation_admin(site: AdminSite) -> ModelAdmin[Conversation] | None:
    """Return the site's admin of conversations, which decides who may see which; None if it has none."""
    return site.get_model_admin(Conversation) if site.is_registered(Conversation) else None
