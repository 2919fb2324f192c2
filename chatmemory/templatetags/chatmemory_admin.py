"""Template tags for this app's pages in the admin."""

from __future__ import annotations

from typing import Any

from django import template

__all__ = ["chatmemory_dashboard"]

register = template.Library()


@register.inclusion_tag("admin/chatmemory/dashboard.html", takes_context=True)
def chatmemory_dashboard(context: Any) -> dict[str, Any]:
    """Draw the dashboard of the conversations that this admin site shows; nothing for staff who may not see them."""
    # Not above: Django imports this module wherever it has templates, and these register models with the admin.
    from chatmemory.admin.conversations import conversation_admin
    from chatmemory.admin.display.dashboard import Dashboard

    request = context["request"]
    site = getattr(request.resolver_match.func, "admin_site", None)
    conversations = conversation_admin(site) if site is not None else None
    if conversations is None or not conversations.has_view_permission(request):
        return {"dashboard": None}
    return {"dashboard": Dashboard.read(conversations.get_queryset(request))}
