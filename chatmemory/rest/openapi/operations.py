"""The operations of each route, described for its users."""

from __future__ import annotations

from chatmemory.rest.openapi.operation import IF_SEEN, SAME, Operation, links
from chatmemory.rest.openapi.turn_operations import TURN_OPERATIONS
from chatmemory.rest.turns.views import TurnViewSet
from chatmemory.rest.views.base import ChatMemoryViewSet
from chatmemory.rest.views.compaction import CompactionViewSet
from chatmemory.rest.views.conversations import ConversationViewSet
from chatmemory.rest.views.memory import MemoryViewSet
from chatmemory.rest.views.messages import MessageViewSet
from chatmemory.rest.views.stores import StoreViewSet

__all__ = ["OPERATIONS", "TAGS"]

TAGS: dict[type[ChatMemoryViewSet], tuple[str, str]] = {
    ConversationViewSet: (
        "conversations",
        "The ordered messages under one memory ID, and the settings of its window.",
    ),
    MessageViewSet: ("messages", "The history: every message that was said, in the memory or no longer."),
    MemoryViewSet: ("memory", "The messages that the model gets."),
    CompactionViewSet: ("compaction", "Summaries, which take the place of older turns in the memory."),
    TurnViewSet: ("turns", "A user says something, and the site's assistant answers."),
    StoreViewSet: ("stores", "LangChain4j's ChatMemoryStore over HTTP: the three methods, by memory ID."),
}

OPERATIONS: dict[tuple[type[ChatMemoryViewSet], str], Operation] = {
    (ConversationViewSet, "list"): Operation(
        id="listConversations",
        summary="Your conversations",
        description="Last active first, in pages.",
        answer="ConversationPage",
        formatted=False,
    ),
    (ConversationViewSet, "create"): Operation(
        id="createConversation",
        summary="Create a conversation",
        description="Every field is optional. 409 if you have the `memory_id` already.",
        body="NewConversation",
        answer="Conversation",
        formatted=False,
        headers=("Idempotency-Key",),
        answer_headers=("Location",),
        problems=frozenset({"MemoryIdTaken"}),
        links={
            **links(
                "By its id.",
                "getConversation",
                "updateConversation",
                "deleteConversation",
                "listMessages",
                "addMessages",
                "getMemory",
                "rewriteMemory",
                "clearMemory",
                "previewMemory",
                "clearToolResults",
                "replayMemory",
                "getCompaction",
                "compactMemory",
                "takeTurn",
                "getTurns",
                "stopTurn",
                conversation_id="$response.body#/id",
            ),
            **links(
                "By its memory_id.", "getStore", "updateStore", "deleteStore", memory_id="$response.body#/memory_id"
            ),
        },
    ),
    (ConversationViewSet, "retrieve"): Operation(
        id="getConversation",
        summary="A conversation's settings and counters",
        answer="Conversation",
        formatted=False,
        headers=("If-None-Match",),
        answer_headers=("ETag",),
        links=links("Unless it was changed.", "updateConversation", "deleteConversation", **SAME, **IF_SEEN),
    ),
    (ConversationViewSet, "partial_update"): Operation(
        id="updateConversation",
        summary="Change title, metadata or window",
        description="A smaller window evicts at once, and the answer says what. A larger one brings nothing back.",
        body="ConversationChange",
        answer="ChangedConversation",
        headers=("If-Match",),
        answer_headers=("ETag",),
    ),
    (ConversationViewSet, "destroy"): Operation(
        id="deleteConversation",
        summary="Erase a conversation",
        description="With its history. To empty only what the model gets, clear the memory.",
        formatted=False,
        headers=("If-Match",),
    ),
    (MessageViewSet, "list"): Operation(
        id="listMessages",
        summary="The history",
        description=(
            "In the order said, in pages; `ordering=-position` for newest first. Without what is synthetic, unless "
            "`origin` asks for it."
        ),
        answer="HistoryPage",
    ),
    (MessageViewSet, "create"): Operation(
        id="addMessages",
        summary="Add messages",
        description="One, or several that are added all or none. The answer says what was added and what had to leave.",
        body="NewMessages",
        answer="Addition",
        headers=("Idempotency-Key", "If-Match"),
        answer_headers=("ETag",),
        links={
            **links("The first that was added.", "getMessage", **SAME, position="$response.body#/added/0/position"),
            **links("As it is then.", "getMemory", **SAME, at="$response.body#/version"),
        },
    ),
    (MessageViewSet, "retrieve"): Operation(
        id="getMessage",
        summary="One message",
        description="Also if it is synthetic.",
        answer="HistoryItem",
    ),
    (MessageViewSet, "pin"): Operation(
        id="pinMessage",
        summary="Pin a message",
        description=(
            "The window never evicts it, nor its tool call or results. A rewrite without it, or clearing the memory, "
            "takes it out. 400 if it is no longer in the memory, or pinned messages would take more than half of the "
            "limit. No body."
        ),
        answer="ChangedPin",
        headers=("If-Match",),
        answer_headers=("ETag",),
        problems=frozenset({"TooLarge"}),
    ),
    (MessageViewSet, "unpin"): Operation(
        id="unpinMessage",
        summary="Unpin a message",
        description="What no longer fits the window is evicted. 400 if it is no longer in the memory. No body.",
        answer="ChangedPin",
        headers=("If-Match",),
        answer_headers=("ETag",),
    ),
    (MemoryViewSet, "retrieve"): Operation(
        id="getMemory",
        summary="What the model gets",
        description="Now, or what it got at a past version. 413 if it is larger than the server handles at once.",
        answer="Memory",
        headers=("If-None-Match",),
        answer_headers=("ETag",),
        problems=frozenset({"TooLarge"}),
        links=links("Unless it was changed.", "rewriteMemory", "clearMemory", "addMessages", **SAME, **IF_SEEN),
    ),
    (MemoryViewSet, "update"): Operation(
        id="rewriteMemory",
        summary="Rewrite the memory",
        description=(
            "With a summary, say. Messages that are in it stay, the others are evicted, new ones are synthetic. The "
            "history keeps everything."
        ),
        body="NewMemory",
        answer="RewrittenMemory",
        headers=("If-Match",),
        answer_headers=("ETag",),
    ),
    (MemoryViewSet, "destroy"): Operation(
        id="clearMemory",
        summary="Clear the memory",
        description="The history keeps everything.",
        formatted=False,
        headers=("If-Match",),
    ),
    (MemoryViewSet, "preview"): Operation(
        id="previewMemory",
        summary="Try another window, or more messages",
        description="What would stay and what would go. Nothing is written.",
        body="Trial",
        answer="Preview",
    ),
    (MemoryViewSet, "clear_tool_results"): Operation(
        id="clearToolResults",
        summary="Clear old tool results",
        description=(
            "Placeholders take the place of tool results that have more tokens than they. The results of the last turn "
            "and of pinned calls stay. The history keeps everything."
        ),
        body="ToolClearing",
        answer="ClearedToolResults",
        headers=("If-Match",),
        answer_headers=("ETag",),
    ),
    (MemoryViewSet, "replay"): Operation(
        id="replayMemory",
        summary="Compare windows",
        description=(
            "The requests to the model as they were, and as other windows would have had them from the start. Nothing "
            "is written. Long conversations are a 413."
        ),
        body="ReplayedWindows",
        answer="Replays",
        formatted=False,
    ),
    (CompactionViewSet, "retrieve"): Operation(
        id="getCompaction",
        summary="Whether a summary is due",
        description=(
            "With what it would stand for, the last summary, and what failed since. 413 if that is more than the "
            "server handles at once."
        ),
        answer="Compaction",
        formatted=False,
        problems=frozenset({"TooLarge"}),
        links=links("As long as nothing changes.", "compactMemory", **SAME),
    ),
    (CompactionViewSet, "compact"): Operation(
        id="compactMemory",
        summary="Put a summary in the place of older turns",
        description=(
            "Without a `text` the site's summarizer writes the summary, which may take a while; messages that are "
            "added meanwhile stay, and if it fails nothing changes. `If-Match` is then checked before it begins, and "
            "no `Idempotency-Key` is needed, for nothing is summarised twice. With `through` and `text` the summary is "
            "yours. The history keeps everything."
        ),
        body="NewCompaction",
        answer="Compacted",
        headers=("Idempotency-Key", "If-Match"),
        answer_headers=("ETag",),
        accepted="Another summary of this conversation is being made. Nothing was done.",
        problems=frozenset({"NotSummarized", "SummarizerFailed"}),
        links=links("As it is then.", "getMemory", **SAME, at="$response.body#/version"),
    ),
    **TURN_OPERATIONS,
    (StoreViewSet, "retrieve"): Operation(
        id="getStore",
        summary="getMessages",
        description="All messages of the memory; none where there is no such memory.",
        answer="StoredMessages",
        headers=("If-None-Match",),
        answer_headers=("ETag",),
        problems=frozenset({"TooLarge"}),
        links=links("Unless it was changed.", "updateStore", memory_id="$request.path.memory_id", **IF_SEEN),
    ),
    (StoreViewSet, "update"): Operation(
        id="updateStore",
        summary="updateMessages",
        description=(
            "What the list leaves out is evicted, what it appends was said; nothing else is evicted, for the window is "
            "yours. Makes the conversation if there is none."
        ),
        body="Store",
        headers=("If-Match",),
        answer_headers=("ETag",),
    ),
    (StoreViewSet, "destroy"): Operation(
        id="deleteStore",
        summary="deleteMessages",
        description="Clears the memory, if there is one. The history keeps everything.",
        headers=("If-Match",),
    ),
}
