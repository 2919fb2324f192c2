"""Capabilities: extensions by other apps, registered in ``AppConfig.ready()``.

An app that stores or shows more of a conversation overrides the methods that it needs. The others cost nothing.
docs/development.md has an example.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import AppConfig, apps

if TYPE_CHECKING:
    from django.db.models import Model, Q, QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern
    from django_stubs_ext import StrOrPromise

    from chatmemory.core.messages import ChatMessage, UserMessage
    from chatmemory.database.change import Change
    from chatmemory.models import Conversation, WindowSettings
    from chatmemory.transfer.export import Line
    from chatmemory.verification import Finding


@dataclass(frozen=True, kw_only=True)
class AdminPage:
    """A page of the admin about one conversation, with a link above the conversation."""

    name: str
    """The last part of the page's URL, and of the URL's name, ``admin:chatmemory_conversation_<name>``."""

    label: StrOrPromise
    """The text of the link. If it is empty, there is no link, except on what the app adds to other pages."""

    view: Callable[[Any, HttpRequest, str], HttpResponse]
    """The view, which is called with the model admin, the request and the conversation's primary key.

    ``chatmemory.admin.views.staff_pages.conversation_or_404`` checks the permissions. With ``also="read_text"``, it
    also checks the permission to read message text, and ``record_read`` logs the access.
    """


@dataclass(frozen=True, kw_only=True)
class MessageField:
    """A field that the REST API adds to each message that it lists or gets."""

    name: str

    schema: Any
    """A field or a serializer of Django REST framework, which describes the values in the OpenAPI document."""

    values: Callable[[Any, Conversation, Collection[int]], Mapping[int, Any]]
    """The function that returns JSON values by position. Positions without a value get null.

    It is called once for a page, with the request, the conversation and the positions of the messages.
    """


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """The text that an app recalled for a message of the user, from messages that the memory no longer contains."""

    text: str
    """The text that the model gets before the user's message. It is not stored."""

    positions: tuple[int, ...] = ()
    """The positions of the conversation's messages that it quotes."""

    refused: Callable[[], object] | None = None
    """Called if the model refused the request as too long, so that the next request does not contain the text."""


@dataclass(frozen=True)
class Question:
    """A question about a conversation, and where its answer is."""

    conversation: UUID

    text: str

    positions: frozenset[int]
    """The positions of the messages that answer it, at least one."""

    at: int
    """The position of the message before which it is asked."""


@dataclass(frozen=True, kw_only=True)
class RecallFigures:
    """The figures of what a search would have found for requests, among what the window had lost.

    A *request* here is the one that got the first answer to a user message. A question counts as answered by *one* if
    one of its positions was there, and by *all* if each was. Figures with summaries and with recall include what the
    window contained; recall does not include summaries.
    """

    requests: int = 0
    """User messages that were answered."""

    input_tokens: int = 0
    """The tokens of these requests, without hits."""

    lost: int = 0
    """Requests before which the memory had lost messages."""

    recalled: int = 0
    """Requests with hits."""

    hits: int = 0

    hit_tokens: int = 0

    questions: int = 0

    window_one: int = 0
    window_all: int = 0
    summaries_one: int = 0
    summaries_all: int = 0
    recall_one: int = 0
    recall_all: int = 0

    unread: int = 0
    """Positions that are not indexed, and too many for a search to read."""

    @property
    def recalled_share(self) -> float:
        """The share of requests with hits, from 0 to 1."""
        return self.recalled / self.requests if self.requests else 0.0

    @property
    def added_share(self) -> float:
        """The tokens of the hits, as a share of those of the requests. It may exceed 1."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else 0.0

    def __add__(self, other: RecallFigures) -> RecallFigures:
        return RecallFigures(**{name: value + getattr(other, name) for name, value in vars(self).items()})


RECALL_HITS = 5
"""The maximum number of hits of one search in a replay, by default."""


class Capability:
    """The extensions of one app. Each method is a hook that does nothing by default.

    An exception in a hook ends the operation that calls it. Rows of the app's own tables are deleted with their
    conversation or message by the ``on_delete`` of their foreign keys.
    """

    @property
    def app(self) -> AppConfig:
        """The app to which the class belongs."""
        app = apps.get_containing_app_config(type(self).__module__)
        assert app is not None, f"{type(self).__module__} is not in an app of INSTALLED_APPS"
        return app

    def changed(self, change: Change) -> None:
        """Extend the transaction of a change of a memory, while the conversation is locked.

        It is called again if the database rolled the transaction back. It is not called for imports.

        Args:
            change: the added and evicted messages; empty if only pins changed.
        """

    def sent(self, conversation: Conversation, messages: list[ChatMessage]) -> list[ChatMessage]:
        """Return the messages that an assistant sends to its model, instead of those of the memory.

        It is called before each call of a model, outside of transactions. The window does not bound messages that it
        adds, and "What the model had" does not show them.
        """
        return messages

    def recall(self, conversation: Conversation, message: UserMessage, tokens: int) -> Recalled | None:
        """Return what the model gets with a message of the user, or None, for ``Assistant(recall="preload")``.

        It is called once in a turn, outside of transactions. What it raises goes to the log, and nothing is recalled.

        Args:
            conversation: the conversation.
            message: the message, which is in the memory already.
            tokens: the maximum number of tokens of the text, as a message.
        """
        return None

    def replay_recall(
        self,
        conversation: Conversation,
        variants: Sequence[WindowSettings | None],
        *,
        hits: int = RECALL_HITS,
        questions: Sequence[Question] = (),
    ) -> list[RecallFigures]:
        """Return what searches would have found in a replay of a conversation, for ``memory.replay(recall=True)``.

        Args:
            conversation: the conversation.
            variants: the settings of each window; None means what really happened.
            hits: the maximum number of hits of one search.
            questions: questions about the conversation.

        Returns:
            The figures of each variant.

        Raises:
            ValueError: ``hits`` is too large.
        """
        raise NotImplementedError

    def cache_read_share(self, conversation: Conversation) -> float | None:
        """Return the share of the input that the provider read from its prompt cache, from 0 to 1; None if unknown.

        The page "Window" shows it beside what a replay expects. It is the share of the calls that got an answer.
        """
        return None

    def anonymise(self, conversation: Conversation) -> None:
        """Delete the app's copies of a conversation's texts, in the transaction that deletes these texts.

        Args:
            conversation: the conversation, locked.
        """

    def erased(self, conversation: Conversation, positions: Collection[int]) -> None:
        """Delete the app's copies of messages, in the transaction that deletes these messages of a conversation.

        It is not called if the whole conversation is deleted.

        Args:
            conversation: the conversation, locked.
            positions: the positions of the messages.
        """

    def purge(self, conversation: Conversation, before: datetime) -> None:
        """Delete the app's rows that are older than ``before``. Messages that were evicted before this time are erased.

        It is also called for conversations without evictions, always outside of transactions.
        """

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        """Yield the JSON objects that an export adds for a conversation, one for each line."""
        return ()

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        """Read a line that ``export`` wrote, and return the function that writes its rows.

        Args:
            conversation: the imported conversation. In a dry run, it is not in the database.
            line: the line, whose fields are taken out one by one. A field that is left over is an error.

        Returns:
            A function that is called in the transaction of the import, and not at all in a dry run.

        Raises:
            BadRecordError: the line is invalid. The whole conversation is then skipped.
        """
        raise NotImplementedError

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        """Yield the problems in the app's tables.

        Args:
            conversations: the conversations to check, with their database. Without filters, these are all
                conversations, and rows that belong to no conversation are also checked.
            repair: whether to correct what can be corrected.
        """
        return ()

    def export_user(self, user: Any, database: str) -> Iterable[dict[str, Any]]:
        """Yield the JSON objects that an export of a user adds, from conversations that the user does not own.

        Each has the primary key of its conversation as ``conversation``.
        """
        return ()

    def erase_user(self, user: Any, database: str, *, how: str) -> None:
        """Erase the user's data in conversations that the user does not own.

        It is called after the user's conversations were erased, outside of transactions.

        Args:
            user: the user, whose row stays.
            database: the alias of the database.
            how: ``"erase"`` or ``"anonymise"``.
        """

    def search(
        self, model: type[Model], conversations: QuerySet[Conversation], text: str, types: Collection[str] = ()
    ) -> Q | None:
        """Return the condition on rows of a list that match what a user searches for, in REST and in the admin.

        Args:
            model: ``Message``; or ``Conversation``, for conversations with a message that matches.
            conversations: the conversations to search, with their database.
            text: what the user typed. The last word may be unfinished.
            types: the types of messages that the user may search; empty for all.

        Returns:
            The condition. None if the app cannot answer: then the list finds messages that contain the text.
        """
        return None

    def routes(self) -> Sequence[URLPattern]:
        """Return URL patterns of the REST API. The views are subclasses of ``ChatMemoryViewSet``."""
        return ()

    def message_fields(self) -> Sequence[MessageField]:
        """Return additional fields of the messages in the REST API. The chat gets them, too."""
        return ()

    def admin_pages(self) -> Sequence[AdminPage]:
        return ()

    def admin_columns(self) -> Sequence[Callable[[Conversation], Any]]:
        """Return additional columns of the list of conversations, as in ``list_display``."""
        return ()

    def admin_filters(self) -> Sequence[Any]:
        """Return additional filters of the list of conversations, as in ``list_filter``."""
        return ()

    def admin_section(self, model_admin: Any, request: HttpRequest, conversation: Conversation, version: int) -> str:
        """Return the HTML of a section on the pages of a conversation and on "What the model had"; by default empty.

        Use ``format_html()``, for example: text that is not marked as safe is escaped.

        Args:
            model_admin: its ``has_read_text_permission()`` returns whether the user may read message text.
            request: the request.
            conversation: the conversation.
            version: the version of the memory that is shown.
        """
        return ""

    def admin_notes(
        self, model_admin: Any, request: HttpRequest, conversation: Conversation, positions: Collection[int]
    ) -> Mapping[int, str]:
        """Return the HTML below messages, by position: on the page of a conversation, and on "What the model had".

        It is called once for a page. See ``admin_section`` for safe HTML and for the first three arguments.

        Args:
            positions: the positions of the messages on the page.
        """
        return {}

    def chat_scripts(self) -> Sequence[str]:
        """Return static files that the chat's panel loads: JavaScript modules, and style sheets (``.css``)."""
        return ()

    def chat_texts(self) -> Mapping[str, Any]:
        """Return the texts of these scripts by name, in the active language. A list has the forms for 1 and for more.

        A script gets a text with ``chat.panel.words.say(name)``.
        """
        return {}


_registered: dict[str, Capability] = {}


def register(capability: Capability) -> None:
    """Register the capability of an app. Call this in ``AppConfig.ready()``. An app has at most one capability."""
    _registered[capability.app.label] = capability
    hooks.cache_clear()


def capabilities() -> tuple[Capability, ...]:
    """Return the registered capabilities."""
    return tuple(_registered.values())


@cache
def hooks(name: str) -> tuple[Callable[..., Any], ...]:
    """Return the overridden methods of this name, in the order of ``INSTALLED_APPS``."""
    return tuple(
        getattr(capability, name)
        for capability in _registered.values()
        if getattr(type(capability), name) is not getattr(Capability, name)
    )


def filled(name: str, *args: Any) -> list[Any]:
    """Return the items that all capabilities return from the method of this name."""
    return [one for hook in hooks(name) for one in hook(*args)]


def hook_of_search(name: str, purpose: str) -> Callable[..., Any]:
    """Return the method of this name of the app that searches.

    Args:
        name: the name.
        purpose: what it is needed for, for the error.

    Raises:
        RuntimeError: no such app is installed.
    """
    found = hooks(name)
    if not found:
        raise RuntimeError(f'{purpose} needs an app that searches: add "chatmemory.contrib.search" to INSTALLED_APPS')
    return found[0]


def first(name: str, *args: Any) -> Any:
    """Return the first result of the methods of this name that is not None; None if there is none."""
    return next((result for hook in hooks(name) if (result := hook(*args)) is not None), None)
