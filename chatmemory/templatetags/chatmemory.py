"""The template tags that draw a chat, and the list of conversations beside it: ``{% load chatmemory %}``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django import template
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_resolver, get_urlconf, resolve, reverse
from django.utils.translation import get_language, ngettext, pgettext
from django.utils.translation import gettext as _

from chatmemory import staff
from chatmemory.addresses import ApiPlace, api_places
from chatmemory.capabilities import filled, hooks
from chatmemory.conf import setting
from chatmemory.core.entries import EvictionReason
from chatmemory.models import LONGEST_SEARCH, Conversation

register = template.Library()

_PLACEHOLDER = str(UUID(int=0))
"""Stands in the address of a page for the primary key, which the script puts there."""

_ONE_AND_MANY = (1, 2)


@register.inclusion_tag("chatmemory/chat/panel.html", takes_context=True)
def chatmemory_chat(
    context: Any, conversation: Any, memory: bool = False, *, api: str = "", **arguments: Any
) -> dict[str, Any]:
    """Draw a chat with the project's assistant: ``{% chatmemory_chat conversation %}``.

    Args:
        context: the context of the page's template, with ``request``.
        conversation: a saved conversation of the request's user.
        memory: whether the memory is shown beside the chat.
        api: the namespace of the REST API, such as ``"v1:chatmemory"``, if the project has it several times. By default
            the one that is nearest to the page.
        arguments: the arguments in the address of the REST API, such as ``tenant``. By default those of this page.

    Raises:
        ImproperlyConfigured: the project lacks ``CHATMEMORY["ASSISTANT"]``, the addresses of the REST API, or the
            context processor that gives templates the request.
        TypeError: ``conversation`` is no conversation, or is not saved.
        Http404: it belongs to somebody else, whom the REST API would not answer either.
    """
    # Not above: a project without a chat need not have what its models need.
    from chatmemory.assistant.project import has_assistant

    if not has_assistant():
        raise ImproperlyConfigured(
            'chatmemory_chat needs somebody who answers: set CHATMEMORY["ASSISTANT"] to the dotted path of an '
            "Assistant, or of a function of the request that returns one."
        )
    if not isinstance(conversation, Conversation):
        raise TypeError(f"chatmemory_chat needs a Conversation, but got: {conversation!r:.100}")
    if conversation._state.adding:
        raise TypeError("chatmemory_chat needs a Conversation that is saved.")
    request = request_of(context, "chatmemory_chat")
    user = getattr(request, "user", None)
    if conversation.owner_id is None or conversation.owner_id != getattr(user, "pk", None):
        raise Http404("This conversation is not the signed-in user's own.")
    found = Api(request, "chatmemory_chat", api, arguments)
    return {
        "conversation": conversation,
        "memory": memory,
        "goes_back": setting("KEEP_HISTORY"),
        "may_change_window": staff.is_free(user, "change"),
        "address": found.address("conversation-detail", conversation_id=conversation.pk),
        **page_context(),
        "words": words() | {name: text for texts in hooks("chat_texts") for name, text in texts().items()},
        "scripts": filled("chat_scripts"),
        "request": request,
    }


@register.inclusion_tag("chatmemory/chat/conversations.html", takes_context=True)
def chatmemory_conversations(
    context: Any, current: Any = None, *, url_name: str = "", api: str = "", **arguments: Any
) -> dict[str, Any]:
    """Draw the list of the user's own conversations: ``{% chatmemory_conversations url_name="chat" %}``.

    Args:
        context: the context of the page's template, with ``request``.
        current: the conversation that the page shows, or its primary key. By default the page's own variable
            ``conversation``, if it has one.
        url_name: the name of the page of one conversation, whose address has the primary key as its only argument. By
            default it is this page: with another primary key in its address, or else with ``?conversation=``. Arguments
            of the address of the REST API may come before it.
        api, arguments: as for ``chatmemory_chat``.

    Raises:
        ImproperlyConfigured: the project lacks the addresses of the REST API, the page ``url_name``, or the context
            processor that gives templates the request.
    """
    request = request_of(context, "chatmemory_conversations")
    found = Api(request, "chatmemory_conversations", api, arguments)
    shown = context.get("conversation") if current is None else current
    key = str(getattr(shown, "pk", shown) or "")
    return {
        "address": found.address("conversation-list"),
        "current": key,
        "page": _page(request, key, url_name, [*found.arguments.values()]),
        "placeholder": _PLACEHOLDER,
        "longest_search": LONGEST_SEARCH,
        **page_context(),
        "words": list_words(),
    }


def _page(request: HttpRequest, current: str, url_name: str, before: Sequence[Any]) -> str:
    """Return the address of a conversation's page, with the placeholder in it.

    Args:
        request: the request for the page.
        current: the primary key of the conversation that the page shows; empty if it shows none.
        url_name: the name of the page; empty for this page.
        before: the arguments of the address of the REST API, which may come before the primary key.
    """
    if url_name:
        try:
            with suppress(NoReverseMatch):
                return reverse(url_name, args=[_PLACEHOLDER])
            return reverse(url_name, args=[*before, _PLACEHOLDER])
        except NoReverseMatch as error:
            raise ImproperlyConfigured(
                f"chatmemory_conversations finds no page {url_name!r} whose only argument is the primary key of a "
                "conversation. Name one in the urlpatterns of the project."
            ) from error
    if current and current in request.path:
        # With two slashes at its beginning it would name another site.
        return "/" + request.path.lstrip("/").replace(current, _PLACEHOLDER)
    return f"?conversation={_PLACEHOLDER}"


def request_of(context: Any, tag: str) -> HttpRequest:
    """Return the request for which the page is made.

    Raises:
        ImproperlyConfigured: the templates of the project do not get it.
    """
    request: HttpRequest | None = context.get("request")
    if request is None:
        raise ImproperlyConfigured(
            f"{tag} needs the request: add django.template.context_processors.request to the "
            "context_processors of TEMPLATES, and render the template with the request."
        )
    return request


class Api:
    """The REST API that a tag uses: its place in the URLs of the project, with the values of the arguments there."""

    def __init__(self, request: HttpRequest, tag: str, namespace: str, given: dict[str, Any]) -> None:
        """Find the API.

        Args:
            request: the request for the page.
            tag: the name of the tag.
            namespace: the namespace that was passed to the tag; empty for the one that is nearest to the page.
            given: the arguments that were passed to the tag; by default they are those of the page's own address.

        Raises:
            ImproperlyConfigured: the project does not have the API there, or an argument is missing or unknown.
        """
        places = list(api_places(get_resolver(get_urlconf())))
        if not places:
            raise ImproperlyConfigured(
                f"{tag} needs the REST API of this app: add "
                'path("api/", include("chatmemory.urls")) to the urlpatterns of the project.'
            )
        match = request.resolver_match
        known = {**(match.kwargs if match else {}), **given}
        here = match.namespaces if match else []
        chosen = [place for place in places if namespace in ("", place.namespace)]
        if not chosen:
            raise ImproperlyConfigured(
                f"{tag} finds no REST API of this app in the namespace {namespace!r}; expected one of: "
                f"{', '.join(sorted({place.namespace for place in places}))}."
            )

        def nearness(place: ApiPlace) -> tuple[bool, int]:
            shared = takewhile(lambda pair: pair[0] == pair[1], zip(place.namespace.split(":"), here, strict=False))
            return known.keys() >= {*place.arguments}, len(list(shared))

        place = max(chosen, key=nearness)
        missing = [name for name in place.arguments if name not in known]
        if missing:
            raise ImproperlyConfigured(
                f"{tag} needs {', '.join(missing)}: the address of the REST API has this argument, and the address of "
                f"this page does not. Pass it to the tag: {{% {tag} … {missing[0]}=… %}}."
            )
        unknown = [name for name in given if name not in place.arguments]
        if unknown:
            raise ImproperlyConfigured(
                f"{tag} got an unexpected argument {unknown[0]!r}: the address of the REST API, in the namespace "
                f"{place.namespace!r}, has no such argument."
            )
        self.tag = tag
        self.namespace = place.namespace
        self.arguments = {name: known[name] for name in place.arguments}

    def address(self, view: str, **own: Any) -> str:
        """Return the address of a view.

        Args:
            view: the name of the view.
            own: its own arguments.

        Raises:
            ImproperlyConfigured: the address cannot have these arguments.
        """
        try:
            return reverse(f"{self.namespace}:{view}", kwargs={**self.arguments, **own})
        except NoReverseMatch as error:
            raise ImproperlyConfigured(f"{self.tag} cannot make an address of the REST API: {error}") from error


def page_context() -> dict[str, Any]:
    """Return the context that all tags have: the names of the CSRF token, the address to sign in, and the language."""
    return {
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "csrf_header": settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-"),
        "sign_in": _sign_in(),
        "language": get_language() or settings.LANGUAGE_CODE,
    }


def _sign_in() -> str:
    """Return the address of the page where one signs in; empty if the project has none at ``LOGIN_URL``."""
    try:
        address = resolve_url(settings.LOGIN_URL)
        if not urlsplit(address).netloc:
            resolve(urlsplit(address).path)
    except (NoReverseMatch, Resolver404):
        return ""
    return address


def list_words() -> dict[str, str | list[str]]:
    """Return the texts that the script of the list shows, by name, as ``words`` does."""
    lost = [ngettext("%(count)s message will be lost.", "%(count)s messages will be lost.", n) for n in _ONE_AND_MANY]
    return {
        **connection_words(),
        "created": _("The conversation was created."),
        "erased": _("The conversation was erased."),
        "found": [
            ngettext("%(number)s conversation found", "%(number)s conversations found", n) for n in _ONE_AND_MANY
        ],
        "found-more": [
            ngettext("More than %(number)s conversation found", "More than %(number)s conversations found", n)
            for n in _ONE_AND_MANY
        ],
        "gone": _("There is no such conversation any more."),
        "lost": [text.replace("%(count)s", "%(number)s") for text in lost],
        "previous-7-days": _("Previous 7 days"),
        "renamed": _("The conversation was renamed."),
        "today": _("Today"),
        "untitled": pgettext("a conversation", "Untitled"),
        "yesterday": _("Yesterday"),
    }


def words() -> dict[str, str | list[str]]:
    """Return the texts that the script of the panel shows, in the language of the request, by name.

    Of two in a list the first is for one thing, and the second for any other number.
    """
    return {
        **connection_words(),
        "SYSTEM": pgettext("who says a message", "Instructions"),
        "USER": pgettext("who says a message", "You"),
        "AI": pgettext("who says a message", "Model"),
        "TOOL_EXECUTION_RESULT": pgettext("who says a message", "Tool"),
        "CUSTOM": pgettext("who says a message", "Other"),
        "summary": pgettext("who says a message", "Summary"),
        "forgotten": _("Forgotten"),
        "forgotten-why": _("Forgotten: %(reason)s"),
        "summarised": _("Summarised"),
        **{reason.value: _(reason.chat_label) for reason in EvictionReason},
        "messages": [ngettext("%(number)s message", "%(number)s messages", n) for n in _ONE_AND_MANY],
        "tokens": [ngettext("%(number)s token", "%(number)s tokens", n) for n in _ONE_AND_MANY],
        "forgotten-messages": [
            ngettext("%(number)s message forgotten", "%(number)s messages forgotten", n) for n in _ONE_AND_MANY
        ],
        "older-forgotten": [
            ngettext("%(number)s older message forgotten", "%(number)s older messages forgotten", n)
            for n in _ONE_AND_MANY
        ],
        "older-summarised": [
            ngettext(
                "%(number)s older message forgotten or summarised",
                "%(number)s older messages forgotten or summarised",
                n,
            )
            for n in _ONE_AND_MANY
        ],
        "would-forget": [
            ngettext("Would forget %(number)s message", "Would forget %(number)s messages", n) for n in _ONE_AND_MANY
        ],
        "used-of": pgettext("how full a window is", "%(used)s of %(limit)s"),
        "full": _("%(percent)s percent full"),
        "too-full": _("%(percent)s percent: over its limit"),
        "what-a-window-is": _(
            "The window is what the model is given. A smaller one forgets the oldest messages at once."
        ),
        "instructions": _("Instructions to the model"),
        "hidden": _("Not shown here"),
        "thinking-shown": _("What the model thought"),
        "raw-text": _("Raw text"),
        "copy": _("Copy"),
        "copy-text": _("Copy text"),
        "copy-markdown": _("Copy Markdown"),
        "copied": _("Copied"),
        "code": _("Code"),
        "table": _("Table"),
        "show-more": _("Show more (%(number)s characters)"),
        "show-all": _("Show all"),
        "show-less": _("Show less"),
        "calls": pgettext("before the tool that the model calls", "calls"),
        "arguments": _("Arguments"),
        "tool-failed": _("Failed"),
        "from-rewrite": _("from a rewrite"),
        "stands-for": _("In the place of messages %(first)s to %(last)s"),
        "cut-off": _("Cut off: %(reason)s"),
        "try-again": _("Try again"),
        "ask-again": _("Ask again"),
        "answer-again": _("Answer again"),
        "edit": pgettext("a message", "Edit"),
        "edit-message": _("Edit message"),
        "send": _("Send"),
        "cancel": _("Cancel"),
        "previous-version": _("Previous version"),
        "next-version": _("Next version"),
        "version-of": _("Version %(number)s of %(count)s"),
        "say-again": _("Say it again"),
        "newest": _("To the newest"),
        "new-below": _("New words below"),
        "answering": _("Answering …"),
        "thinking": _("Thinking …"),
        "reconnecting": _("Connection lost. Reconnecting…"),
        "stopping": _("Connection lost. The answer will be stopped when it is back."),
        "stopped": _("Stopped. There is no answer."),
        "was-stopped": _("Stopped"),
        "busy": _("Another answer is being made in this conversation."),
        "unanswered": _("Not answered."),
        "unanswered-forgotten": _("The last message was forgotten before it was answered."),
        "too-small": _(
            "The window is too small: the last message was forgotten before it was answered. Make the window larger or "
            "the message shorter, then say it again."
        ),
        "summary-came": _("A summary took the place of older messages."),
    }


def connection_words() -> dict[str, str]:
    """Return the texts about requests that fail, by name, which all scripts of this app's chats show."""
    return {
        "sign-in": _("Sign in again"),
        "signed-out": _("You are signed out."),
        "no-answer": _("The site does not answer."),
        "answered-status": _("The site answered with the status %(status)s."),
    }
