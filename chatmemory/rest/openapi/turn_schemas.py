"""Turns: what is asked, the answer, and the UI messages of the AI SDK."""

from __future__ import annotations

from chatmemory.conf import setting
from chatmemory.rest.openapi.shapes import COUNT, NOT_BLANK, Schema, closed, constant, list_of, or_null, ref, text

__all__ = ["turn_schemas"]

_PART: Schema = {
    "type": "object",
    "description": "A part of a message: its `type` is text, reasoning, file, step-start, dynamic-tool and so on.",
    "properties": {"type": text()},
    "required": ["type"],
}

_TEXT_PART = closed({"type": constant("text"), "text": text(pattern=NOT_BLANK, maxLength=1000)})


def _ui_message(parts: Schema, **fixed: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {
            "id": text(minLength=1, maxLength=255),
            "role": text(enum=["system", "user", "assistant"]),
            "parts": parts,
            "metadata": {},
            **fixed,
        },
        "required": ["id", "role", "parts"],
    }


def turn_schemas(changes: Schema) -> dict[str, Schema]:
    """Return the schemas by name.

    Args:
        changes: the properties of what an addition did.
    """
    tokens = or_null(COUNT)
    said: Schema = {
        "anyOf": [
            text(minLength=1, maxLength=setting("MAX_MESSAGE_CHARS") - 200, pattern=NOT_BLANK),
            ref("UserMessage"),
            ref("OpenAiUserMessage"),
            {"type": "null"},
        ],
        "description": "What the user says: a text or a message. Without it the turn goes on from where the "
        "conversation stands, after a failure for example.",
    }
    asked = {
        "type": "object",
        "properties": {
            "id": {"description": "Not read: the address names the conversation."},
            "messages": list_of(ref("SaidUIMessage"), "Only the last one whose role is user is read.", minItems=1),
            "trigger": {"description": "Not read."},
        },
        "required": ["messages"],
    }
    return {
        "UIMessage": {**_ui_message(list_of(_PART)), "description": "A message as the AI SDK's `useChat` has it."},
        "SaidUIMessage": {
            **_ui_message(
                list_of(_TEXT_PART, minItems=1),
                id=text("The idempotency key.", minLength=1, maxLength=255, pattern="^[!-~]+$"),
                role=constant("user"),
            ),
            "description": "What a user says, as `useChat` sends it. Files may be among the parts, too.",
        },
        "UseChatRequest": {**asked, "description": "What the AI SDK's `useChat` sends."},
        "AskedTurn": closed({}, {"message": said}),
        "NewTurn": {"anyOf": [ref("AskedTurn"), ref("UseChatRequest")]},
        "Turn": closed(
            {
                "answer": {
                    "anyOf": [ref("ChatMessage"), ref("OpenAiMessage"), ref("UIMessage")],
                    "description": "In the format that was asked for.",
                },
                **changes,
                "usage": {
                    **or_null(
                        closed(
                            {
                                "input_tokens": tokens,
                                "output_tokens": tokens,
                                "cached_input_tokens": tokens,
                                "reasoning_tokens": tokens,
                            }
                        )
                    ),
                    "description": "The tokens that the model's server counted, of all calls of the turn together; "
                    "null where it said nothing, or was not asked.",
                },
            },
            description="An answer, and what the turn added and evicted.",
        ),
        "EventStream": {
            "type": "object",
            "description": "A server-sent event of the AI SDK's UI message stream, version 1. The last one has "
            "`[DONE]`. A comment comes while nothing else does.",
            "properties": {"data": text("A part as JSON: start, text-delta, data-memory, finish and so on.")},
            "required": ["data"],
        },
        "UIMessages": closed(
            {
                "messages": list_of(ref("UIMessage"), "The latest 50 turns, without the answer of a running one."),
                "before": {
                    **or_null(COUNT),
                    "description": "For older ones; null: there are none.",
                },
                "running": {
                    "type": "boolean",
                    "description": "Whether a turn runs, whose answer turns/stream/ has. If that is a 204, the turn "
                    "has ended meanwhile: read again.",
                },
            },
            description="What was said, as `useChat` shows it.",
        ),
    }
