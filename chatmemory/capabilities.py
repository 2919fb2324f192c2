"""Capabilities: additions of other apps to chatmemory, registered in ``AppConfig.ready()``.

An app that keeps more of a conversation in tables of its own, or shows more of it, fills the methods that it needs. The
others cost nothing. docs/development.md has an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern
    from django_stubs_ext import StrOrPromise

    from chatmemory.core.messages import ChatMessage
    from chatmemory.database.change import Change
    from chatmemory.models import Conversation
    from chatmemory.transfer.export import Line
    from chatmemory.verification import Finding


@dataclass(frozen=True, kw_only=True)
class AdminPage:
    """A page about one conversation in the admin, with a link above the conversation."""

    name: str
    """The last part of its address; ``admin:chatmemory_conversation_<name>`` names the address."""

    label: StrOrPromise

    view: Callable[[Any, HttpRequest, str], HttpResponse]
    """Called with the admin, the request and the conversation's primary key.

    ``chatmemory.admin.views.staff_pages.conversation_or_404`` checks the permissions: with ``also="read_text"``
    that of reading texts, which ``record_read`` records.
    """


class Capability:
    """The additions of one app. Each method is a hook, which does nothing until a subclass fills it.

    An exception in a hook ends the work that calls it. Rows of the app's own tables are erased with their conversation
    or message by the ``on_delete`` of their foreign keys.
    """

    @property
    def app(self) -> AppConfig:
        """The app that the class belongs to."""
        app = apps.get_containing_app_config(type(self).__module__)
        assert app is not None, f"{type(self).__module__} is in no app of INSTALLED_APPS"
        return app

    # Changes

    def changed(self, change: Change) -> None:
        """Do more in the transaction of a change of a memory, with the conversation locked.

        It is called again if the database rolled the transaction back. What an import restores is no change.

        Args:
            change: what came and what left; neither, if only pins changed.
        """

    # Assistants

    def sent(self, conversation: Conversation, messages: list[ChatMessage]) -> list[ChatMessage]:
        """Return the messages that an assistant sends to its model, in the place of those of the memory.

        It is called before each call of a model, outside of any transaction. The window does not bound what it adds,
        and "What the model had" shows the memory without it.
        """
        return messages

    # Personal data

    def anonymise(self, conversation: Conversation) -> None:
        """Delete the app's own copies of a conversation's texts, in the transaction that deletes these.

        Args:
            conversation: the conversation, locked.
        """

    def purge(self, conversation: Conversation, before: datetime) -> None:
        """Delete the app's own rows that are older than ``before``: messages that left the memory earlier are erased.

        It is called for conversations without evictions, too, and outside of any transaction.
        """

    # Exports and imports

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        """Yield the JSON objects that an export has of a conversation, a line each."""
        return ()

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        """Read a line that ``export`` wrote, and return the function that writes its rows.

        Args:
            conversation: the conversation that is imported. In a dry run it is not in the database.
            line: its fields are taken out one by one; one that is left is an error.

        Returns:
            Called in the transaction of the import; not at all in a dry run.

        Raises:
            BadRecordError: the line is wrong. The whole conversation is left out then.
        """
        raise NotImplementedError

    # Maintenance

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        """Yield what is wrong in the app's own tables.

        Args:
            conversations: the conversations to look at, on their database. Without filters these are all, so what
                belongs to no conversation is looked at, too.
            repair: correct what can be corrected.
        """
        return ()

    # REST

    def routes(self) -> Sequence[URLPattern]:
        """Return addresses of the REST API. The views are ``ChatMemoryViewSet``."""
        return ()

    # The admin

    def admin_pages(self) -> Sequence[AdminPage]:
        return ()

    def admin_columns(self) -> Sequence[Callable[[Conversation], Any]]:
        """Return more columns of the list of conversations, as in ``list_display``."""
        return ()

    def admin_filters(self) -> Sequence[Any]:
        """Return more filters of the list of conversations, as in ``list_filter``."""
        return ()

    def admin_section(self, model_admin: Any, request: HttpRequest, conversation: Conversation, version: int) -> str:
        """Return the HTML of a section of the pages of a conversation, and of "What the model had"; mostly empty.

        It is made by ``format_html()``, say: a text that is not marked as safe is escaped.

        Args:
            model_admin: says by ``has_read_text_permission()`` whether this reader may read texts.
            request: the request.
            conversation: the conversation.
            version: the version of the memory that is shown.
        """
        return ""

    # The chat

    def chat_scripts(self) -> Sequence[str]:
        """Return static files that the chat's panel loads, as modules of JavaScript."""
        return ()


_registered: dict[str, Capability] = {}


def register(capability: Capability) -> None:
    """Let an app add what ``capability`` fills. Call it in ``AppConfig.ready()``; an app has one capability."""
    _registered[capability.app.label] = capability
    hooks.cache_clear()


def capabilities() -> tuple[Capability, ...]:
    """Return what is registered."""
    return tuple(_registered.values())


@cache
def hooks(name: str) -> tuple[Callable[..., Any], ...]:
    """Return the methods of this name that capabilities have filled, in the order of ``INSTALLED_APPS``."""
    return tuple(
        getattr(capability, name)
        for capability in _registered.values()
        if getattr(type(capability), name) is not getattr(Capability, name)
    )


def filled(name: str, *args: Any) -> list[Any]:
    """Return what all capabilities return from the method of this name, which returns several."""
    return [one for hook in hooks(name) for one in hook(*args)]
