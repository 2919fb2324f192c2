"""The links above a conversation: to look at it, to export it, to change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from chatmemory.capabilities import filled
from chatmemory.formats.registry import message_format, one_for_one
from chatmemory.models import Conversation

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["Tool", "Tools"]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A link to a page or a file."""

    label: StrOrPromise
    address: str


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The links that a member of staff may follow, by what they do."""

    looks: list[Tool]

    exports: list[Tool]

    acts: list[Tool]

    erase: Tool | None

    @classmethod
    def of(cls, model_admin: Any, request: HttpRequest, conversation: Conversation) -> Tools:
        """Return the links that the admin allows."""

        def tool(name: str, label: StrOrPromise) -> Tool:
            address = f"admin:chatmemory_conversation_{name}"
            site = model_admin.admin_site.name
            return Tool(label=label, address=reverse(address, args=[conversation.pk], current_app=site))

        looks = [
            tool("memory", _("What the model had")),
            tool("window", _("Window")),
            *(tool(page.name, page.label) for page in filled("admin_pages")),
            tool("history", _("Admin log")),
        ]
        exports, acts, erase = [], [], None
        if model_admin.has_read_text_permission(request, conversation):
            exports = [
                tool("export_jsonl", _("Export JSON lines")),
                *(
                    tool(f"export_{name}", _("Export for %(format)s") % {"format": message_format(name).title})
                    for name in one_for_one()
                ),
            ]
        if model_admin.has_act_permission(request, conversation):
            acts = [
                tool("clear_tool_results", _("Clear old tool results")),
                tool("clear", _("Clear memory")),
            ]
        if model_admin.has_compact_permission(request, conversation):
            acts.insert(len(acts) - 1 if acts else 0, tool("compact", _("Summarise now")))
        if model_admin.has_delete_permission(request, conversation):
            erase = tool("delete", _("Erase"))
        return cls(looks=looks, exports=exports, acts=acts, erase=erase)
