"""The template tags that draw a chat: ``{% load chatmemory %}``."""

from __future__ import annotations

from typing import Any

from django import template

from chatmemory.chat.tags import conversations_context, panel_context

register = template.Library()


@register.inclusion_tag("chatmemory/chat/panel.html", takes_context=True)
def chatmemory_chat(context: Any, conversation: Any, memory: bool = False) -> dict[str, Any]:
    """Draw a chat with the project's assistant: ``{% chatmemory_chat conversation %}``.

    Args:
        context: the context of the page's template.
        conversation: a saved conversation of the request's user.
        memory: whether the memory is shown beside the chat.
    """
    return panel_context(context, conversation, memory=memory)


@register.inclusion_tag("chatmemory/chat/conversations.html", takes_context=True)
def chatmemory_conversations(context: Any, current: Any = None, *, url_name: str = "") -> dict[str, Any]:
    """Draw the list of the user's own conversations: ``{% chatmemory_conversations url_name="chat" %}``.

    Args:
        context: the context of the page's template.
        current: the conversation that the page shows; by default its variable ``conversation``.
        url_name: the name of the page of one conversation, with the primary key as its only argument; by default this
            page.
    """
    return conversations_context(context, current, url_name=url_name)
