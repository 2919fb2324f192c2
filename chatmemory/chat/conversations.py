"""The context of the tag ``chatmemory_conversations``."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from chatmemory.chat.page import api_address, page_context, request_of
from chatmemory.chat.words import connection_words

_PLACEHOLDER = str(UUID(int=0))
"""Stands in the address of a page for the primary key, which the script puts there."""

_ONE, _MANY = 1, 2


def conversations_context(context: Any, current: Any = None, *, url_name: str = "") -> dict[str, Any]:
    """Return the context of the template ``chatmemory/chat/conversations.html``.

    Args:
        context: the context of the page's template, with ``request``.
        current: the conversation that the page shows, or its primary key. By default the page's own variable
            ``conversation``, if it has one.
        url_name: the name of the page of one conversation, whose address has the primary key as its only argument. By
            default it is this page: with another primary key in its address, or else with ``?conversation=``.

    Raises:
        ImproperlyConfigured: the project lacks the addresses of the REST API, the page ``url_name``, or the context
            processor that gives templates the request.
    """
    request = request_of(context, "chatmemory_conversations")
    shown = context.get("conversation") if current is None else current
    key = str(getattr(shown, "pk", shown) or "")
    return {
        "address": api_address("chatmemory_conversations", "conversation-list"),
        "current": key,
        "page": _page(request, key, url_name),
        "placeholder": _PLACEHOLDER,
        **page_context(),
        "words": _words(),
    }


def _page(request: HttpRequest, current: str, url_name: str) -> str:
    """Return the address of a conversation's page, with the placeholder in it."""
    if url_name:
        try:
            return reverse(url_name, args=[_PLACEHOLDER])
        except NoReverseMatch as error:
            raise ImproperlyConfigured(
                f"chatmemory_conversations finds no page {url_name!r} whose only argument is the primary key of a "
                "conversation. Name one in the urlpatterns of the project."
            ) from error
    if current and current in request.path:
        # With two slashes at its beginning it would name another site.
        return "/" + request.path.lstrip("/").replace(current, _PLACEHOLDER)
    return f"?conversation={_PLACEHOLDER}"


def _words() -> dict[str, str | list[str]]:
    """Return the texts that the script shows, by name, as :func:`chatmemory.chat.words.words` does."""
    lost = [ngettext("%(count)s message will be lost.", "%(count)s messages will be lost.", n) for n in (_ONE, _MANY)]
    return {
        **connection_words(),
        "created": _("The conversation was created."),
        "erased": _("The conversation was erased."),
        "gone": _("There is no such conversation any more."),
        "lost": [text.replace("%(count)s", "%(number)s") for text in lost],
        "renamed": _("The conversation was renamed."),
        "untitled": pgettext("a conversation", "Untitled"),
    }
