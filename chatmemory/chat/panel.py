"""The context of the tag ``chatmemory_chat``."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import Http404

from chatmemory.capabilities import filled
from chatmemory.chat.page import api_address, page_context, request_of
from chatmemory.chat.words import words
from chatmemory.models import Conversation


def panel_context(context: Any, conversation: Any, *, memory: bool = False) -> dict[str, Any]:
    """Return the context of the template ``chatmemory/chat/panel.html``.

    Args:
        context: the context of the page's template, with ``request``.
        conversation: a saved conversation of the request's user.
        memory: whether the memory is shown beside the chat.

    Raises:
        ImproperlyConfigured: the project lacks ``CHATMEMORY["ASSISTANT"]``, the addresses of the REST API, or the
            context processor that gives templates the request.
        TypeError: ``conversation`` is no conversation, or is not saved.
        Http404: it belongs to somebody else, whom the REST API would not answer either.
    """
    _require_assistant()
    if not isinstance(conversation, Conversation):
        raise TypeError(f"chatmemory_chat needs a Conversation, but got: {conversation!r:.100}")
    if conversation._state.adding:
        raise TypeError("chatmemory_chat needs a Conversation that is saved.")
    request = request_of(context, "chatmemory_chat")
    user = getattr(request, "user", None)
    if conversation.owner_id is None or conversation.owner_id != getattr(user, "pk", None):
        raise Http404("This conversation is not the signed-in user's own.")
    return {
        "conversation": conversation,
        "memory": memory,
        "address": api_address("chatmemory_chat", "conversation-detail", conversation.pk),
        **page_context(),
        "words": words(),
        "scripts": filled("chat_scripts"),
        "request": request,
    }


def _require_assistant() -> None:
    # Not above: a project without a chat need not have what its models need.
    from chatmemory.assistant.project import has_assistant

    if not has_assistant():
        raise ImproperlyConfigured(
            'chatmemory_chat needs somebody who answers: set CHATMEMORY["ASSISTANT"] to the dotted path of an '
            "Assistant, or of a function of the request that returns one."
        )
