"""What each route does, in the words of its users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from chatmemory.formats.registry import message_formats, one_for_one
from chatmemory.rest.formats import DEFAULT_FORMAT
from chatmemory.rest.openapi.parameters import ETAG, LOCATION
from chatmemory.rest.openapi.shapes import Schema
from chatmemory.rest.views.conversations import ConversationViewSet
from chatmemory.rest.views.memory import MemoryViewSet
from chatmemory.rest.views.messages import MessageViewSet
from chatmemory.rest.views.stores import StoreViewSet

__all__ = ["OPERATIONS", "TAGS", "Operation"]

TAGS = {
    "conversations": "The ordered messages under one memory ID, and the settings of its window.",
    "messages": "The history: every message that was said, in the memory or no longer.",
    "memory": "The messages that the model gets.",
    "stores": "LangChain4j's ChatMemoryStore over HTTP: the three methods, by memory ID.",
}


def _all() -> list[str]:
    return list(message_formats())


def _readable() -> list[str]:
    return one_for_one(readable=True)


def _only_default() -> list[str]:
    return [DEFAULT_FORMAT]


_CONDITIONAL = {"If-Match"}
_TAGGED = {"ETag": ETAG}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one route."""

    id: str
    tag: str
    summary: str
    description: str = ""
    body: str | None = None
    """The schema of the request."""

    body_required: bool = True
    answer: str | None = None
    """The schema of the answer; none: it has no body."""

    status: HTTPStatus = HTTPStatus.OK
    formats: Callable[[], list[str]] | None = None
    """The formats in which it takes or gives messages; none if it does neither."""

    headers: frozenset[str] = frozenset()
    """Of the request."""

    answer_headers: dict[str, Schema] | None = None
    problems: frozenset[int] = frozenset()
    """Statuses that only some operations have."""

    links: dict[str, Schema] | None = None


def _link(operation: str, description: str, **parameters: str) -> Schema:
    return {"operationId": operation, "description": description, "parameters": parameters}


def _links_of_conversation() -> dict[str, Schema]:
    by_id = (
        "getConversation updateConversation deleteConversation listMessages addMessages getMemory rewriteMemory "
        "clearMemory previewMemory"
    )
    links = {name: _link(name, "By its id.", conversation_id="$response.body#/id") for name in by_id.split()}
    for name in ("getStore", "updateStore", "deleteStore"):
        links[name] = _link(name, "By its memory_id.", memory_id="$response.body#/memory_id")
    return links


_SAME = {"conversation_id": "$request.path.conversation_id"}
_IF_SEEN = {"If-Match": "$response.header.ETag"}

OPERATIONS: dict[tuple[type, str], Operation] = {
    (ConversationViewSet, "list"): Operation(
        id="listConversations",
        tag="conversations",
        summary="Your conversations",
        description="Last active first, in pages.",
        answer="ConversationPage",
    ),
    (ConversationViewSet, "create"): Operation(
        id="createConversation",
        tag="conversations",
        summary="Create a conversation",
        description="Every field is optional. 409 if you have the `memory_id` already.",
        body="NewConversation",
        body_required=False,
        answer="Conversation",
        status=HTTPStatus.CREATED,
        headers=frozenset({"Idempotency-Key"}),
        answer_headers={"Location": LOCATION},
        problems=frozenset({409, 422}),
        links=_links_of_conversation(),
    ),
    (ConversationViewSet, "retrieve"): Operation(
        id="getConversation",
        tag="conversations",
        summary="A conversation's settings and counters",
        answer="Conversation",
        headers=frozenset({"If-None-Match"}),
        answer_headers=_TAGGED,
        links={
            "updateConversation": _link("updateConversation", "Unless it was changed.", **_SAME, **_IF_SEEN),
            "deleteConversation": _link("deleteConversation", "Unless it was changed.", **_SAME, **_IF_SEEN),
        },
    ),
    (ConversationViewSet, "partial_update"): Operation(
        id="updateConversation",
        tag="conversations",
        summary="Change title, metadata or window",
        description="A smaller window evicts at once, and the answer says what. A larger one brings nothing back.",
        body="ConversationChange",
        body_required=False,
        answer="ChangedConversation",
        formats=_readable,
        headers=frozenset(_CONDITIONAL),
        answer_headers=_TAGGED,
    ),
    (ConversationViewSet, "destroy"): Operation(
        id="deleteConversation",
        tag="conversations",
        summary="Erase a conversation",
        description="With its history. To empty only what the model gets, clear the memory.",
        status=HTTPStatus.NO_CONTENT,
        headers=frozenset(_CONDITIONAL),
    ),
    (MessageViewSet, "list"): Operation(
        id="listMessages",
        tag="messages",
        summary="The history",
        description="In the order said, in pages; `ordering=-position` for newest first. Without what is synthetic.",
        answer="HistoryPage",
        formats=one_for_one,
    ),
    (MessageViewSet, "create"): Operation(
        id="addMessages",
        tag="messages",
        summary="Add messages",
        description="One, or several that are added all or none. The answer says what was added and what had to leave.",
        body="NewMessages",
        answer="Addition",
        status=HTTPStatus.CREATED,
        formats=_readable,
        headers=frozenset({"Idempotency-Key", *_CONDITIONAL}),
        problems=frozenset({422}),
        links={
            "getMessage": _link(
                "getMessage", "The first that was added.", **_SAME, position="$response.body#/added/0/position"
            ),
            "getMemory": _link("getMemory", "As it is then.", **_SAME, at="$response.body#/version"),
        },
    ),
    (MessageViewSet, "retrieve"): Operation(
        id="getMessage",
        tag="messages",
        summary="One message",
        description="Also if it is synthetic.",
        answer="HistoryItem",
        formats=one_for_one,
    ),
    (MemoryViewSet, "retrieve"): Operation(
        id="getMemory",
        tag="memory",
        summary="What the model gets",
        description="Now, or what it got at a past version.",
        answer="Memory",
        formats=_all,
        headers=frozenset({"If-None-Match"}),
        answer_headers=_TAGGED,
        links={
            "rewriteMemory": _link("rewriteMemory", "Unless it was changed.", **_SAME, **_IF_SEEN),
            "clearMemory": _link("clearMemory", "Unless it was changed.", **_SAME, **_IF_SEEN),
            "addMessages": _link("addMessages", "Unless it was changed.", **_SAME, **_IF_SEEN),
        },
    ),
    (MemoryViewSet, "update"): Operation(
        id="rewriteMemory",
        tag="memory",
        summary="Rewrite the memory",
        description=(
            "With a summary, say. Messages that are in it stay, the others are evicted, new ones are synthetic. The "
            "history keeps everything."
        ),
        body="NewMemory",
        answer="RewrittenMemory",
        formats=_readable,
        headers=frozenset(_CONDITIONAL),
    ),
    (MemoryViewSet, "destroy"): Operation(
        id="clearMemory",
        tag="memory",
        summary="Clear the memory",
        description="The history keeps everything.",
        status=HTTPStatus.NO_CONTENT,
        headers=frozenset(_CONDITIONAL),
    ),
    (MemoryViewSet, "preview"): Operation(
        id="previewMemory",
        tag="memory",
        summary="Try another window, or more messages",
        description="What would stay and what would go. Nothing is written.",
        body="Trial",
        body_required=False,
        answer="Preview",
        formats=_readable,
    ),
    (StoreViewSet, "retrieve"): Operation(
        id="getStore",
        tag="stores",
        summary="getMessages",
        description="All messages of the memory; none where there is no such memory.",
        answer="StoredMessages",
        formats=_only_default,
        headers=frozenset({"If-None-Match"}),
        answer_headers=_TAGGED,
        links={
            "updateStore": _link(
                "updateStore", "Unless it was changed.", memory_id="$request.path.memory_id", **_IF_SEEN
            )
        },
    ),
    (StoreViewSet, "update"): Operation(
        id="updateStore",
        tag="stores",
        summary="updateMessages",
        description=(
            "What the list leaves out is evicted, what it appends was said; nothing else is evicted, for the window is "
            "yours. Makes the conversation if there is none."
        ),
        body="Store",
        status=HTTPStatus.NO_CONTENT,
        formats=_only_default,
        headers=frozenset(_CONDITIONAL),
    ),
    (StoreViewSet, "destroy"): Operation(
        id="deleteStore",
        tag="stores",
        summary="deleteMessages",
        description="Clears the memory, if there is one. The history keeps everything.",
        status=HTTPStatus.NO_CONTENT,
        formats=_only_default,
        headers=frozenset(_CONDITIONAL),
    ),
}
