"""Conversations, their windows, histories and memories: what serializers do not say."""

from __future__ import annotations

from drf_spectacular.openapi import AutoSchema

from chatmemory.conf import setting
from chatmemory.models import WINDOW_SETTINGS
from chatmemory.rest.openapi.serializer_fields import fields_of
from chatmemory.rest.openapi.shapes import COUNT, Schema, closed, list_of, or_null, ref, whole
from chatmemory.rest.serializers import ConversationSerializer, MessageSerializer

__all__ = ["resource_schemas"]

_MESSAGES = {
    "anyOf": [list_of(ref("ChatMessage")), list_of(ref("OpenAiMessage"))],
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


def resource_schemas(inspector: AutoSchema) -> dict[str, Schema]:
    """Return the schemas by name; some limits are settings."""
    batch, most = setting("MAX_BATCH"), setting("MAX_MEMORY_MESSAGES")
    conversation = fields_of(inspector, ConversationSerializer())
    conversation["metadata"]["additionalProperties"] = True
    window = {name: conversation[name] for name in WINDOW_SETTINGS}
    window["limit"] = {**window["limit"], "maximum": setting("MAX_LIMIT")}
    described = {name: conversation[name] for name in ("title", "metadata")}
    item = fields_of(inspector, MessageSerializer())
    item["message"] = {
        "anyOf": [ref("ChatMessage"), ref("OpenAiMessage"), {"type": "null"}],
        "description": item["message"]["description"],
    }
    size = {name: conversation[name] for name in ("window", "limit")}
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
        "Addition": closed(
            {
                "added": _items("Without what changes nothing: a system message that is there already."),
                "evicted": _items("What had to leave."),
                "memory": closed({**size, "messages": COUNT, "tokens": whole(0)}),
                "version": conversation["version"],
            },
            description="What an addition did.",
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
