"""What can be done with a conversation, as links above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from chatmemory.models import Conversation

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["Tool", "conversation_tools"]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A link to a page or a file."""

    label: StrOrPromise
    address: str


def conversation_tools(model_admin: Any, request: HttpRequest, conversation: Conversation) -> list[Tool]:
    """What this member of staff may do with it."""
    offered = [("conversation_memory", _("What the model saw"), True), ("conversation_what_if", _("What if"), True)]
    acting = model_admin.has_act_permission(request, conversation)
    reading = model_admin.has_read_text_permission(request, conversation)
    offered += [
        ("conversation_window", _("Change window"), acting),
        ("conversation_clear", _("Clear memory"), acting),
        ("conversation_export_jsonl", _("Export JSON lines"), reading),
        ("conversation_export_openai", _("Export for OpenAI"), reading),
        ("conversation_export_langchain4j", _("Export for LangChain4j"), reading),
        ("conversation_history", _("History"), True),
        ("conversation_delete", _("Erase"), model_admin.has_delete_permission(request, conversation)),
    ]
    site = model_admin.admin_site.name
    return [
        Tool(label=label, address=reverse(f"admin:chatmemory_{name}", args=[conversation.pk], current_app=site))
        for name, label, is_allowed in offered
        if is_allowed
    ]
