"""Conversations, their windows, histories and memories: what serializers do not say."""

from __future__ import annotations

from drf_spectacular.openapi import AutoSchema

from chatmemory.conf import setting
from chatmemory.models import WINDOW_SETTINGS
from chatmemory.rest.openapi.compaction_schemas import compaction_schemas
from chatmemory.rest.openapi.serializer_fields import fields_of
from chatmemory.rest.openapi.shapes import COUNT, Schema, closed, list_of, number, or_null, ref, whole
from chatmemory.rest.openapi.turn_schemas import turn_schemas
from chatmemory.rest.replays import FIGURES, MOST_VARIANTS, REPLAYED_SETTINGS, VariantSerializer
from chatmemory.rest.serializers import ConversationSerializer, MessageSerializer
from chatmemory.rest.tool_clearing import ToolClearingSerializer

__all__ = ["resource_schemas"]

_MESSAGES = {
    "anyOf": [list_of(ref(name)) for name in ("ChatMessage", "OpenAiMessage", "UIMessage")],
    "description": "What the model gets, in order, in the format that was asked for.",
}


def _page(item: str) -> Schema:
    address = or_null({"type": "string", "format": "uri"})
    return closed({"next": address, "previous": address, "results": list_of(ref(item))}, description="One page.")


def _batch(message: str, most: int, least: int = 0) -> Schema:
    return closed({"messages": list_of(ref(message), minItems=least, maxItems=most)})


def _items(description: str, name: str = "HistoryItem") -> Schema:
    return list_of(ref(name), description)


def _sent() -> Schema:
    names = ("OpenAiResponsesInput", "AnthropicRequest", "GeminiRequest")
    # A project's own formats may have anything.
    own: list[Schema] = [{}] if setting("FORMATS") else []
    return {
        "anyOf": [*_MESSAGES["anyOf"], *map(ref, names), *own],
        "description": "What the model gets, in order, in the format that was asked for, and so that its API takes it.",
    }


_OWNER: Schema = {
    "owner": {
        "type": ["integer", "string", "null"],
        "description": "The primary key of its owner, null for nobody. Only with `?owner=`.",
    }
}


_TOKENS = whole(0)

_FIGURES: Schema = {
    "requests": {**COUNT, "description": "Requests to the model: one for each answer that was said."},
    "input_tokens": {**_TOKENS, "description": "The tokens of all requests: those of their messages, as stored."},
    "cacheable_tokens": {**_TOKENS, "description": "The tokens of the input with which the request before began, too."},
    "full_price_tokens": {**_TOKENS, "description": "The other tokens of the input."},
    "hit_share": number(0, 1, "The part of the input that a provider's prompt cache may have had, from 0 to 1."),
    "prefix_breaks": {**COUNT, "description": "Requests that do not begin with the whole request before."},
    "evictions": {**COUNT, "description": "Messages that had no room, or gave way to a placeholder."},
    "mean_fill": number(0, None, "The part of the limit that a request took, on average."),
    "repairs": {
        **COUNT,
        "description": "Requests whose first message after the system message is not the user's, or with a tool result "
        "without its call.",
    },
    "missing": {**COUNT, "description": "Messages that were deleted, so that nothing is known of them."},
}


def resource_schemas(inspector: AutoSchema) -> dict[str, Schema]:
    """Return the schemas by name; some limits are settings."""
    batch, most = setting("MAX_BATCH"), setting("MAX_MEMORY_MESSAGES")
    conversation = fields_of(inspector, ConversationSerializer())
    conversation["metadata"]["additionalProperties"] = True
    window = {name: conversation[name] for name in WINDOW_SETTINGS}
    window["limit"] = {**window["limit"], "maximum": setting("MAX_LIMIT")}
    described = {name: conversation[name] for name in ("title", "metadata")}
    variant = {name: window[name] for name in VariantSerializer.Meta.fields}
    figures = {name: _FIGURES[name] for name in FIGURES}
    item = fields_of(inspector, MessageSerializer())
    item["message"] = {
        "anyOf": [ref("ChatMessage"), ref("OpenAiMessage"), ref("UIMessage"), {"type": "null"}],
        "description": item["message"]["description"],
    }
    size = {name: conversation[name] for name in ("window", "limit")}
    memory_size = closed({**size, "messages": COUNT, "tokens": _TOKENS})
    addition = {
        "added": _items("Without what changes nothing: a system message that is there already."),
        "evicted": _items("What had to leave."),
        "memory": memory_size,
        "version": conversation["version"],
    }
    memory = {
        "messages": _MESSAGES,
        "tokens": {**whole(0), "description": "Of these messages."},
        **size,
        "version": conversation["version"],
    }
    return {
        "Conversation": closed(conversation, _OWNER, description="A conversation: its settings and counters."),
        "ChangedConversation": closed(
            {**conversation, "evicted": _items("What no longer fits.")},
            _OWNER,
            description="A conversation, and what a new window evicted.",
        ),
        "NewConversation": closed({}, {"memory_id": conversation["memory_id"], **described, **window}),
        "ConversationChange": closed({}, {**described, **window}),
        "ConversationPage": _page("Conversation"),
        "HistoryItem": closed(item, description="A message and what became of it."),
        "HistoryPage": _page("HistoryItem"),
        "NewMessages": {
            "description": "One message, or several that are added all or none; `format` says in which format.",
            "anyOf": [ref("ChatMessage"), ref("MessageBatch"), ref("OpenAiMessage"), ref("OpenAiMessageBatch")],
        },
        "MessageBatch": _batch("ChatMessage", batch, 1),
        "OpenAiMessageBatch": _batch("OpenAiMessage", batch, 1),
        "Addition": closed(addition, description="What an addition did."),
        **turn_schemas(addition),
        "ChangedPin": closed(
            {"item": ref("HistoryItem"), "memory": memory_size, "version": conversation["version"]},
            description="A message that was pinned or unpinned.",
        ),
        "ToolClearing": closed({}, fields_of(inspector, ToolClearingSerializer())),
        "ClearedToolResults": closed(
            {
                "added": _items("The placeholders."),
                "evicted": _items("The tool results whose places they took."),
                "memory": memory_size,
                "version": conversation["version"],
            },
            description="The tool results that gave way, and their placeholders.",
        ),
        **compaction_schemas(inspector, conversation, memory_size),
        "ReplayedWindows": closed(
            {},
            {
                "variants": list_of(
                    closed({}, variant),
                    "Windows that would have bounded the memory from the start; missing settings are as they are.",
                    maxItems=MOST_VARIANTS,
                )
            },
        ),
        "Replays": closed(
            {
                "recorded": closed(figures, description="What really happened."),
                "variants": list_of(
                    closed({**{name: conversation[name] for name in REPLAYED_SETTINGS}, **figures}),
                    "What would have happened, in the order of the request.",
                ),
            },
            description="The figures of what happened, and of what would have happened with other windows.",
        ),
        "Memory": closed({**memory, "messages": _sent()}, description="What the model gets."),
        "NewMemory": {"anyOf": [ref("MessageList"), ref("OpenAiMessageList")]},
        "MessageList": _batch("ChatMessage", most),
        "OpenAiMessageList": _batch("OpenAiMessage", most),
        "RewrittenMemory": closed(
            {
                **memory,
                "added": _items("What is new in it."),
                "evicted": _items("What it leaves out, and what did not fit."),
            }
        ),
        "Trial": closed(
            {},
            {
                **window,
                "messages": {
                    "anyOf": [list_of(ref(name), maxItems=batch) for name in ("ChatMessage", "OpenAiMessage")],
                    "description": "Messages that were not said yet.",
                },
            },
        ),
        "Preview": closed(
            {
                **memory,
                **{name: _items(f"What would be {name}.", "PreviewItem") for name in ("added", "evicted")},
            },
            description="What a memory would be.",
        ),
        "PreviewItem": closed(
            {**item, "created_at": or_null(item["created_at"])},
            description="A message that was not said yet has no created_at.",
        ),
        "Store": list_of(ref("ChatMessage"), "The memory as LangChain4j's stores have it.", maxItems=most),
        "StoredMessages": list_of(ref("ChatMessage"), "The memory as LangChain4j's stores have it."),
    }
