"""An example of every body. A test holds each against its schema."""

from __future__ import annotations

from typing import Any

__all__ = ["EXAMPLES"]

_ID = "01935c5e-0000-7000-8000-000000000001"
_PAGES = f"https://example.com/api/conversations/{_ID}/messages/"
_MOMENT = "2026-01-31T12:00:00Z"

_SYSTEM = {"text": "You are a friendly assistant.", "type": "SYSTEM"}
_HELLO = {"contents": [{"text": "Hello! My name is Ann.", "type": "TEXT"}], "type": "USER"}
_LOOK = {
    "contents": [
        {"text": "What is this?", "type": "TEXT"},
        {
            "image": {"url": "https://example.com/cat.jpg", "mimeType": "image/jpeg"},
            "detailLevel": "HIGH",
            "type": "IMAGE",
        },
    ],
    "type": "USER",
}
_CALL = {
    "toolExecutionRequests": [{"id": "call_1", "name": "look_up", "arguments": '{"what": "cat"}'}],
    "attributes": {},
    "type": "AI",
}
_RESULT = {
    "id": "call_1",
    "toolName": "look_up",
    "contents": [{"text": "A small carnivore.", "type": "TEXT"}],
    "attributes": {},
    "type": "TOOL_EXECUTION_RESULT",
}
_OPENAI_HELLO = {"role": "user", "content": "Hello! My name is Ann."}
_OPENAI_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"what": "cat"}'}}
    ],
}
_OPENAI_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "A small carnivore."}
_SUMMARY = {"contents": [{"text": "Summary: Ann asked what a cat is.", "type": "TEXT"}], "type": "USER"}

_NEW = {
    "memory_id": "support-42",
    "title": "Support",
    "metadata": {"topic": "cats"},
    "window": "messages",
    "limit": 2,
}
_CONVERSATION = {
    "id": _ID,
    **_NEW,
    "model": "gpt-4o",
    "always_keep_system_message_first": False,
    "version": 2,
    "message_count": 3,
    "retained_count": 2,
    "retained_tokens": 23,
    "created_at": _MOMENT,
    "updated_at": _MOMENT,
}


def _item(position: int, message: dict[str, Any], text: str, tokens: int, **more: Any) -> dict[str, Any]:
    return {
        "position": position,
        "type": "USER",
        "text": text,
        "message": message,
        "state": "retained",
        "reason": None,
        "token_count": tokens,
        "synthetic": False,
        "added_in": position + 1,
        "evicted_in": None,
        "evicted_at": None,
        "created_at": _MOMENT,
        **more,
    }


_HELLO_ITEM = _item(0, _HELLO, "Hello! My name is Ann.", 11)
_GONE_ITEM = {**_HELLO_ITEM, "state": "evicted", "reason": "window", "evicted_in": 2, "evicted_at": _MOMENT}
_SUMMARY_ITEM = _item(3, _SUMMARY, "Summary: Ann asked what a cat is.", 13, added_in=3, synthetic=True)
_REWRITTEN_ITEM = {**_HELLO_ITEM, "state": "evicted", "reason": "rewritten", "evicted_in": 3, "evicted_at": _MOMENT}
_MEMORY = {"messages": [_SYSTEM, _HELLO], "tokens": 23, "window": "messages", "limit": 2, "version": 2}
_PREVIEW_ITEM = {**_item(3, _LOOK, "What is this?", 773), "created_at": None, "added_in": 3}
_WOULD_GO = {**_HELLO_ITEM, "reason": "window", "evicted_in": 3}

EXAMPLES: dict[str, dict[str, Any]] = {
    "NewConversation": {"Window": _NEW, "Defaults": {}},
    "Conversation": {"Conversation": _CONVERSATION},
    "ConversationPage": {"OnlyPage": {"next": None, "previous": None, "results": [_CONVERSATION]}},
    "ConversationChange": {"SmallerWindow": {"limit": 1}, "Title": {"title": "About cats"}},
    "ChangedConversation": {"SmallerWindow": {**_CONVERSATION, "evicted": [_GONE_ITEM]}},
    "NewMessages": {
        "User": _HELLO,
        "Image": _LOOK,
        "ToolCallAndResult": {"messages": [_CALL, _RESULT]},
        "OpenAi": _OPENAI_HELLO,
        "OpenAiToolCallAndResult": {"messages": [_OPENAI_CALL, _OPENAI_RESULT]},
    },
    "Addition": {
        "Addition": {
            "added": [_item(2, _LOOK, "What is this?", 773, added_in=2)],
            "evicted": [_GONE_ITEM],
            "memory": {"window": "messages", "limit": 2, "messages": 2, "tokens": 785},
            "version": 2,
        }
    },
    "HistoryPage": {"FirstPage": {"next": f"{_PAGES}?cursor=cD0w", "previous": None, "results": [_GONE_ITEM]}},
    "HistoryItem": {"Retained": _HELLO_ITEM, "OpenAi": {**_HELLO_ITEM, "message": _OPENAI_HELLO}},
    "Memory": {
        "LangChain4j": _MEMORY,
        "OpenAi": {**_MEMORY, "messages": [{"role": "system", "content": _SYSTEM["text"]}, _OPENAI_HELLO]},
    },
    "NewMemory": {
        "Summary": {"messages": [_SYSTEM, _SUMMARY]},
        "OpenAiSummary": {
            "messages": [
                {"role": "system", "content": "You are a friendly assistant."},
                {"role": "user", "content": "Summary: Ann asked what a cat is."},
            ]
        },
    },
    "RewrittenMemory": {
        "Summary": {
            **_MEMORY,
            "messages": [_SYSTEM, _SUMMARY],
            "version": 3,
            "added": [_SUMMARY_ITEM],
            "evicted": [_REWRITTEN_ITEM],
        }
    },
    "Trial": {"SmallerWindow": {"limit": 1}, "NextMessage": {"messages": [_LOOK]}},
    "Preview": {
        "NextMessage": {
            **_MEMORY,
            "messages": [_SYSTEM, _LOOK],
            "tokens": 785,
            "added": [_PREVIEW_ITEM],
            "evicted": [_WOULD_GO],
        }
    },
    "Store": {"Chat": [_SYSTEM, _HELLO], "ToolCallAndResult": [_SYSTEM, _HELLO, _CALL, _RESULT]},
    "StoredMessages": {"Chat": [_SYSTEM, _HELLO], "Nothing": []},
}
