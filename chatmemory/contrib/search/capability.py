"""The capability of this app, and what it adds to conversations.

Every process of the project imports this module when it starts, so it imports the others when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern

from chatmemory.capabilities import RECALL_HITS, Capability, Question, Recalled, RecallFigures
from chatmemory.contrib.search.models import EVERY
from chatmemory.core.messages import UserMessage
from chatmemory.models import Conversation, ConversationQuerySet, WindowSettings
from chatmemory.signals import messages_added
from chatmemory.verification import Finding

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


class SearchCapability(Capability):
    """The index of a conversation is erased and verified with it. It is not exported: it can be made again.

    What models got as quotations is exported, because nothing else knows it.
    """

    def recall(self, conversation: Conversation, message: UserMessage, tokens: int) -> Recalled | None:
        from chatmemory.contrib.search.preload import recall

        return recall(conversation, message, tokens)

    def replay_recall(
        self,
        conversation: Conversation,
        variants: Sequence[WindowSettings | None],
        *,
        hits: int = RECALL_HITS,
        questions: Sequence[Question] = (),
    ) -> list[RecallFigures]:
        from chatmemory.contrib.search.replaying import replay_recall

        return replay_recall(conversation, variants, hits=hits, questions=questions)

    def anonymise(self, conversation: Conversation) -> None:
        from chatmemory.contrib.search.indexing import erase_all

        erase_all(conversation)

    def erased(self, conversation: Conversation, positions: Collection[int]) -> None:
        from chatmemory.contrib.search.indexing import erase

        erase(conversation, positions)

    def purge(self, conversation: Conversation, before: datetime) -> None:
        from chatmemory.contrib.search.quoted import delete_older

        delete_older(conversation, before)

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        from chatmemory.contrib.search.quoted import records

        return records(conversation)

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        from chatmemory.contrib.search.quoted import restore_record

        return restore_record(conversation, line)

    def search(
        self, model: type[Model], conversations: QuerySet[Conversation], text: str, types: Collection[str] = ()
    ) -> Q | None:
        from chatmemory.contrib.search.lists import condition

        return condition(model, conversations, text, types)

    def routes(self) -> Sequence[URLPattern]:
        from chatmemory.contrib.search.rest import routes

        return routes

    def admin_section(self, model_admin: Any, request: HttpRequest, conversation: Conversation, version: int) -> str:
        from chatmemory.contrib.search.admin import index_section, quoted_section

        if version == conversation.version:
            return index_section(conversation)
        return quoted_section(model_admin, request, conversation, version)

    def chat_scripts(self) -> Sequence[str]:
        return ["chatmemory_search/search.css", "chatmemory_search/search.js"]

    def chat_texts(self) -> Mapping[str, Any]:
        from chatmemory.contrib.search.chat import texts

        return texts()

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        from chatmemory.contrib.search.checking import wrong_for_a_while

        return wrong_for_a_while(conversations, repair=repair)


def index_new(conversation: Conversation, messages: list[Any], **kwargs: Any) -> None:
    """Index a conversation after every ``EVERY`` positions. A receiver of ``messages_added``."""
    if (messages[-1].position + 1) // EVERY > messages[0].position // EVERY:
        from chatmemory.contrib.search.indexing import index_all

        index_all(conversation)


def install() -> None:
    """Add ``search()`` and ``asearch()`` to conversations and their querysets, and connect the receiver."""
    messages_added.connect(index_new, sender=Conversation, dispatch_uid="chatmemory.contrib.search")

    def search(conversation: Conversation, text: str, **options: Any) -> Any:
        from chatmemory.contrib.search.searching import search

        return search(_only(conversation), text, **options)

    async def asearch(conversation: Conversation, text: str, **options: Any) -> Any:
        from chatmemory.contrib.search.searching import asearch

        return await asearch(_only(conversation), text, **options)

    def search_all(conversations: Any, text: str, *, owner: Any = None, **options: Any) -> Any:
        from chatmemory.contrib.search.searching import search

        return search(_of(conversations, owner), text, **options)

    async def asearch_all(conversations: Any, text: str, *, owner: Any = None, **options: Any) -> Any:
        from chatmemory.contrib.search.searching import asearch

        return await asearch(_of(conversations, owner), text, **options)

    for name, of_one, of_many in (("search", search, search_all), ("asearch", asearch, asearch_all)):
        Conversation.add_to_class(name, of_one)
        setattr(ConversationQuerySet, name, of_many)
        setattr(type(Conversation.objects), name, of_many)


def _only(conversation: Conversation) -> QuerySet[Conversation]:
    return Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)


def _of(conversations: Any, owner: Any) -> QuerySet[Conversation]:
    rows: QuerySet[Conversation] = conversations.all()
    return rows if owner is None else rows.filter(owner=owner)
