"""Conversations, their windows, histories and memories."""

from __future__ import annotations

from chatmemory.conf import setting
from chatmemory.models import EVICTION_REASONS, MAX_LIMIT, TYPES, WINDOWS
from chatmemory.models.identifiers import MEMORY_ID_CHARS
from chatmemory.rest.openapi.shapes import COUNT, MOMENT, Schema, closed, list_of, or_null, ref, text, whole

__all__ = ["resource_schemas"]

_WINDOW = text("What is bounded: the number of messages, or of their tokens.", enum=[value for value, _ in WINDOWS])
_LIMIT = whole(1, MAX_LIMIT, "At most so many messages or tokens.")
_VERSION = {**COUNT, "description": "Of the memory: every change of it adds one."}
_REASON = text(
    "Why it was evicted: there was no room in the window; its tool call left (orphan); a new system message replaced "
    "it; a rewrite left it out; the memory was cleared.",
    enum=[value for value, _ in EVICTION_REASONS],
)
_MODEL = text("The model whose tokens are counted.", minLength=1, maxLength=255)
_WINDOW_FIELDS = {
    "window": _WINDOW,
    "limit": _LIMIT,
    "model": {**_MODEL, "pattern": r"\S"},
    "always_keep_system_message_first": {"type": "boolean", "description": "Puts a new system message in front."},
}
_DESCRIPTION_FIELDS = {
    "title": text("For people; spaces around it are taken off.", maxLength=255),
    "metadata": {
        "type": "object",
        "description": "Anything the application wants to keep; nested at most 30 levels deep.",
        "additionalProperties": True,
    },
}
_MEMORY_ID = text(
    "What the application calls the conversation; unique among yours. By default a UUID.",
    minLength=1,
    maxLength=MEMORY_ID_CHARS,
)
_MESSAGE = {
    "anyOf": [ref("ChatMessage"), ref("OpenAiMessage"), {"type": "null"}],
    "description": "In the format that was asked for; null if that cannot express it.",
}
_MESSAGES = {
    "anyOf": [list_of(ref("ChatMessage")), list_of(ref("OpenAiMessage"))],
    "description": "What the model gets, in order, in the format that was asked for.",
}
_ITEM = {
    "position": {**COUNT, "description": "0, 1, 2 … in the order of arrival."},
    "type": text(enum=[value for value, _ in TYPES]),
    "text": text("What was said as plain text; empty if there is none."),
    "message": _MESSAGE,
    "state": text("In the memory now, or no longer.", enum=["retained", "evicted"]),
    "reason": or_null(_REASON),
    "token_count": COUNT,
    "synthetic": {"type": "boolean", "description": "Put into the memory by a rewrite; nobody said it."},
    "added_in": {**COUNT, "description": "The version of the memory with which it came."},
    "evicted_in": or_null({**COUNT, "description": "The version of the memory with which it left."}),
    "evicted_at": or_null(MOMENT),
    "created_at": MOMENT,
}
_MEMORY = {
    "messages": _MESSAGES,
    "tokens": {**whole(0), "description": "Of these messages."},
    "window": _WINDOW,
    "limit": _LIMIT,
    "version": _VERSION,
}
_CONVERSATION = {
    "id": {"type": "string", "format": "uuid"},
    "memory_id": _MEMORY_ID,
    **_DESCRIPTION_FIELDS,
    **_WINDOW_FIELDS,
    "version": _VERSION,
    "message_count": {**COUNT, "description": "Messages said."},
    "retained_count": {**COUNT, "description": "Messages in the memory."},
    "retained_tokens": {**whole(0), "description": "Tokens of the memory."},
    "created_at": MOMENT,
    "updated_at": MOMENT,
}


def _page(item: str) -> Schema:
    address = or_null({"type": "string", "format": "uri"})
    return closed({"next": address, "previous": address, "results": list_of(ref(item))}, description="One page.")


def _batch(message: str, most: int, least: int = 0) -> Schema:
    return closed({"messages": list_of(ref(message), minItems=least, maxItems=most)})


def _items(name: str, description: str) -> Schema:
    return list_of(ref(name), description)


def _sent() -> Schema:
    names = ("OpenAiResponsesInput", "AnthropicRequest", "GeminiRequest")
    # A project's own formats may have anything.
    own: list[Schema] = [{}] if setting("FORMATS") else []
    return {
        "anyOf": [*_MESSAGES["anyOf"], *map(ref, names), *own],
        "description": "What the model gets, in order, in the format that was asked for, and so that its API takes it.",
    }


def resource_schemas() -> dict[str, Schema]:
    """The schemas by name; some limits are settings."""
    batch, memory = setting("MAX_BATCH"), setting("MAX_MEMORY_MESSAGES")
    trial = {"added": "PreviewItem", "evicted": "PreviewItem"}
    return {
        "Conversation": closed(_CONVERSATION, description="A conversation: its settings and counters."),
        "ChangedConversation": closed(
            {**_CONVERSATION, "evicted": _items("HistoryItem", "What no longer fits.")},
            description="A conversation, and what a new window evicted.",
        ),
        "NewConversation": closed({}, {"memory_id": _MEMORY_ID, **_DESCRIPTION_FIELDS, **_WINDOW_FIELDS}),
        "ConversationChange": closed({}, {**_DESCRIPTION_FIELDS, **_WINDOW_FIELDS}),
        "ConversationPage": _page("Conversation"),
        "HistoryItem": closed(_ITEM, description="A message and what became of it."),
        "HistoryPage": _page("HistoryItem"),
        "NewMessages": {
            "description": "One message, or several that are added all or none; `format` says in which format.",
            "anyOf": [ref("ChatMessage"), ref("MessageBatch"), ref("OpenAiMessage"), ref("OpenAiMessageBatch")],
        },
        "MessageBatch": _batch("ChatMessage", batch, 1),
        "OpenAiMessageBatch": _batch("OpenAiMessage", batch, 1),
        "Addition": closed(
            {
                "added": _items("HistoryItem", "Without what changes nothing: a system message that is there already."),
                "evicted": _items("HistoryItem", "What had to leave."),
                "memory": closed({"window": _WINDOW, "limit": _LIMIT, "messages": COUNT, "tokens": whole(0)}),
                "version": _VERSION,
            },
            description="What an addition did.",
        ),
        "Memory": closed({**_MEMORY, "messages": _sent()}, description="What the model gets."),
        "NewMemory": {"anyOf": [ref("MessageList"), ref("OpenAiMessageList")]},
        "MessageList": _batch("ChatMessage", memory),
        "OpenAiMessageList": _batch("OpenAiMessage", memory),
        "RewrittenMemory": closed(
            {
                **_MEMORY,
                "added": _items("HistoryItem", "What is new in it."),
                "evicted": _items("HistoryItem", "What it leaves out, and what did not fit."),
            }
        ),
        "Trial": closed(
            {},
            {
                **_WINDOW_FIELDS,
                "messages": {
                    "anyOf": [
                        list_of(ref("ChatMessage"), maxItems=batch),
                        list_of(ref("OpenAiMessage"), maxItems=batch),
                    ],
                    "description": "Messages that were not said yet.",
                },
            },
        ),
        "Preview": closed(
            {
                **_MEMORY,
                **{name: _items(item, f"What would be {name}.") for name, item in trial.items()},
            },
            description="What a memory would be.",
        ),
        "PreviewItem": closed(
            {**_ITEM, "created_at": or_null(MOMENT)}, description="A message that was not said yet has no created_at."
        ),
        "Store": list_of(ref("ChatMessage"), "The memory as LangChain4j's stores have it.", maxItems=memory),
        "StoredMessages": list_of(ref("ChatMessage"), "The memory as LangChain4j's stores have it."),
    }
