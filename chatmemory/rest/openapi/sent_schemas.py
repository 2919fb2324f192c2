"""The requests of models' APIs that have no value for each message. Only their frames are described here."""

from __future__ import annotations

from chatmemory.rest.openapi.shapes import Schema, closed, list_of, text

__all__ = ["SENT"]

_ANYTHING: Schema = {"type": "object", "additionalProperties": True}
_TURN = {"role": text(enum=["user", "assistant"]), "content": {"anyOf": [text(), list_of(_ANYTHING, minItems=1)]}}
_PARTS = list_of(_ANYTHING, minItems=1)

SENT: dict[str, Schema] = {
    "OpenAiResponsesInput": list_of(
        _ANYTHING, "Items of OpenAI's Responses, ready for `input=` (`?format=openai-responses`)."
    ),
    "AnthropicRequest": closed(
        {"messages": list_of(closed(_TURN), minItems=1)},
        {"system": {"anyOf": [text(), list_of(_ANYTHING, minItems=1)]}},
        "Two arguments of Anthropic's Messages, `messages=` and `system=` (`?format=anthropic`).",
    ),
    "GeminiRequest": closed(
        {"contents": list_of(closed({"role": text(enum=["user", "model"]), "parts": _PARTS}), minItems=1)},
        {"system_instruction": closed({"parts": _PARTS})},
        "Two fields of a request to Gemini's `generateContent` (`?format=gemini`).",
    ),
}
