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

_COVERING: dict[str, Any] = {
    "contents": [{"text": "<summary>\nAnn asked what a cat is.\n</summary>", "type": "TEXT"}],
    "type": "USER",
}

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
    "low_water": 100,
    "whole_turns": False,
    "keep_tool_results": None,
    "compact_at": None,
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
        "origin": "said",
        "covers_from": None,
        "covers_to": None,
        "pinned": False,
        "added_in": position + 1,
        "evicted_in": None,
        "evicted_at": None,
        "created_at": _MOMENT,
        **more,
    }


_HELLO_ITEM = _item(0, _HELLO, "Hello! My name is Ann.", 11)
_GONE_ITEM = {**_HELLO_ITEM, "state": "evicted", "reason": "window", "evicted_in": 2, "evicted_at": _MOMENT}
_SUMMARY_ITEM = {
    **_item(3, _SUMMARY, "Summary: Ann asked what a cat is.", 13, added_in=3, synthetic=True),
    **{"origin": "rewrite", "covers_from": 0, "covers_to": 0},
}
_REWRITTEN_ITEM = {**_HELLO_ITEM, "state": "evicted", "reason": "rewritten", "evicted_in": 3, "evicted_at": _MOMENT}
_MEMORY = {"messages": [_SYSTEM, _HELLO], "tokens": 23, "window": "messages", "limit": 2, "version": 2}
_RESULT_ITEM = {
    **_item(5, _RESULT, "A small carnivore.", 9, type="TOOL_EXECUTION_RESULT"),
    **{"state": "evicted", "reason": "tool_cleared", "evicted_in": 7, "evicted_at": _MOMENT},
}
_CLEARED = {**_RESULT, "contents": [{"text": "[Cleared]", "type": "TEXT"}]}
_CLEARED_ITEM = {
    **_item(7, _CLEARED, "[Cleared]", 8, type="TOOL_EXECUTION_RESULT", added_in=7, synthetic=True),
    **{"origin": "cleared", "covers_from": 5, "covers_to": 5},
}
_COMPACTED_ITEM = {
    **_item(9, _COVERING, _COVERING["contents"][0]["text"], 12, added_in=8, synthetic=True),
    **{"origin": "summary", "covers_from": 0, "covers_to": 5},
}
_SUMMARIZED_ITEM = {
    **_item(5, _CALL, "", 9, type="AI"),
    **{"state": "evicted", "reason": "summarized", "evicted_in": 8, "evicted_at": _MOMENT},
}
_SIZE_NOW = {"window": "tokens", "limit": 4000, "messages": 5, "tokens": 61}
_FIGURES = {
    "requests": 40,
    "input_tokens": 120_000,
    "cacheable_tokens": 30_000,
    "full_price_tokens": 90_000,
    "hit_share": 0.25,
    "prefix_breaks": 30,
    "evictions": 70,
    "mean_fill": 0.9,
    "repairs": 3,
    "missing": 0,
}
_VARIANT = {"low_water": 50, "whole_turns": True}
_VARIANT_FIGURES = {
    **_FIGURES,
    **{"input_tokens": 90_000, "cacheable_tokens": 81_000, "full_price_tokens": 9_000, "hit_share": 0.9},
    **{"prefix_breaks": 4, "mean_fill": 0.7, "repairs": 0},
}
_PREVIEW_ITEM = {**_item(3, _LOOK, "What is this?", 773), "created_at": None, "added_in": 3}
_WOULD_GO = {**_HELLO_ITEM, "reason": "window", "evicted_in": 3}

EXAMPLES: dict[str, dict[str, Any]] = {
    "NewConversation": {"Window": _NEW, "Defaults": {}},
    "Conversation": {"Conversation": _CONVERSATION},
    "ConversationPage": {"OnlyPage": {"next": None, "previous": None, "results": [_CONVERSATION]}},
    "ConversationChange": {
        "SmallerWindow": {"limit": 1},
        "KeepsThePromptCache": {"low_water": 50, "whole_turns": True, "keep_tool_results": 3},
        "Title": {"title": "About cats"},
        "Summaries": {"compact_at": 80},
        "NoSummaries": {"compact_at": None},
    },
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
    "NewTurn": {
        "Text": {"message": "Hello! My name is Ann."},
        "Message": {"message": _LOOK},
        "Go on": {},
        "useChat": {
            "id": _ID,
            "trigger": "submit-message",
            "messages": [{"id": "aB3dE6gH9jK2mN5p", "role": "user", "parts": [{"type": "text", "text": "Hello!"}]}],
        },
    },
    "Turn": {
        "Answer": {
            "answer": {"text": "Hello, Ann!", "toolExecutionRequests": [], "attributes": {}, "type": "AI"},
            "added": [_HELLO_ITEM],
            "evicted": [],
            "memory": {"window": "messages", "limit": 2, "messages": 2, "tokens": 23},
            "version": 2,
            "usage": {"input_tokens": 31, "output_tokens": 6, "cached_input_tokens": 0, "reasoning_tokens": None},
        }
    },
    "EventStream": {
        "Text": {"data": '{"type":"text-delta","id":"text-0","delta":"Hello, Ann!"}'},
        "End": {"data": "[DONE]"},
    },
    "UIMessages": {
        "Latest": {
            "messages": [
                {"id": "0", "role": "user", "parts": [{"type": "text", "text": "Hello! My name is Ann."}]},
                {
                    "id": "answer-0",
                    "role": "assistant",
                    "parts": [{"type": "step-start"}, {"type": "text", "text": "Hello, Ann!", "state": "done"}],
                },
            ],
            "before": None,
            "running": False,
        }
    },
    "ChangedPin": {
        "Pinned": {
            "item": {**_HELLO_ITEM, "pinned": True},
            "memory": {"window": "messages", "limit": 2, "messages": 2, "tokens": 23},
            "version": 3,
        }
    },
    "ToolClearing": {"Keep": {"keep": 0, "exclude_tools": ["remember"], "placeholder": "[Cleared]"}, "Defaults": {}},
    "ClearedToolResults": {
        "Result": {
            "added": [_CLEARED_ITEM],
            "evicted": [_RESULT_ITEM],
            "memory": {"window": "tokens", "limit": 4000, "messages": 5, "tokens": 61},
            "version": 7,
        }
    },
    "Compaction": {
        "Due": {
            "compact_at": 80,
            "due": True,
            "under_way": False,
            "plan": {"covers_from": 0, "covers_to": 41, "messages": 18, "tokens": 5210, "previous": 9},
            "last_summary": {
                "position": 9,
                "covers_from": 0,
                "covers_to": 5,
                "tokens": 12,
                "state": "retained",
                "text": "Ann asked what a cat is.",
                "created_at": _MOMENT,
            },
            "failures": {"count": 1, "failed_at": _MOMENT, "retry_at": _MOMENT, "error": "TimeoutError"},
            "version": 8,
        },
        "Nothing": {
            "compact_at": None,
            "due": False,
            "under_way": False,
            "plan": None,
            "last_summary": None,
            "failures": {"count": 0, "failed_at": None, "retry_at": None, "error": ""},
            "version": 2,
        },
    },
    "NewCompaction": {
        "BySummarizer": {},
        "KeepMore": {"keep": 70},
        "Own": {"through": 41, "text": "Ann asked what a cat is."},
    },
    "Compacted": {
        "Summarized": {
            "outcome": "summarized",
            "added": [_COMPACTED_ITEM],
            "evicted": [_SUMMARIZED_ITEM],
            "memory": _SIZE_NOW,
            "version": 8,
        },
        "NothingToDo": {"outcome": "nothing_to_do", "added": [], "evicted": [], "memory": _SIZE_NOW, "version": 8},
        "UnderWay": {"outcome": "under_way", "added": [], "evicted": [], "memory": _SIZE_NOW, "version": 8},
    },
    "ReplayedWindows": {"LowWater": {"variants": [_VARIANT]}, "Recorded": {}},
    "Replays": {
        "LowWater": {
            "recorded": _FIGURES,
            "variants": [
                {"window": "tokens", "limit": 4000, **_VARIANT, "keep_tool_results": None, **_VARIANT_FIGURES}
            ],
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
