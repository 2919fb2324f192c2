"""What the admin's templates of this app need."""

from __future__ import annotations

from typing import Any

from django import template

from chatmemory.admin.dashboard import Dashboard

__all__ = ["chatmemory_dashboard"]

register = template.Library()


@register.inclusion_tag("admin/chatmemory/dashboard.html", takes_context=True)
def chatmemory_dashboard(context: Any) -> dict[str, Any]:
    """The dashboard, for those who may see conversations."""
    may_see = context["request"].user.has_perm("chatmemory.view_conversation")
    return {"dashboard": Dashboard.read() if may_see else None}
