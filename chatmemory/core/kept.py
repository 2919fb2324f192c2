"""The data that an answer stores for its provider, beside text and calls, and the tokens of sending it again.

The formats store there what messages have no field for: signed thinking, reasoning, and searches and code that ran at
the provider. LangChain4j stores none of it, and does not count its tokens.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from chatmemory.core.contents import TextContent
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage

ANTHROPIC = "anthropic"
GEMINI = "gemini"
OPENAI = "openai"
OPENAI_RESPONSES = "openai_responses"
PYDANTIC_AI_RESPONSE = "pydantic_ai_response"

THINKING_SIGNATURE = "thinking_signature"
"""The attribute for the signature of an answer's thinking, as LangChain4j's Anthropic module names it."""

REDACTED_THINKING = "redacted_thinking"
"""The attribute for the list of data of redacted thinking, as LangChain4j's Anthropic module names it."""

ATTRIBUTES = (
    *(ANTHROPIC, GEMINI, OPENAI, OPENAI_RESPONSES, PYDANTIC_AI_RESPONSE),
    *(THINKING_SIGNATURE, REDACTED_THINKING),
)
"""The attributes that are sent back to the provider of the answer."""

_SIGNATURES = ("signature", "thoughtSignature", "thought_signature", THINKING_SIGNATURE)

# Names and labels, which the model does not see as text, and citations, which providers do not count.
_NOT_COUNTED = (
    *("type", "part_kind", "kind", "role", "status", "id", "call_id", "tool_use_id", "tool_call_id", "model_name"),
    *("provider_name", "provider_url", "provider_response_id", "run_id", "finish_reason", "timestamp", "usage"),
    *("citations", "annotations", "logprobs", "audio", "mimeType", "media_type"),
)

_OPAQUE = re.compile(r"[A-Za-z0-9+/_-]{100,}=*")
_CHARS_PER_TOKEN = 16 / 3  # Base64 has four characters for three bytes, and a token has about four bytes

PDF = "JVBERi"
"""How the Base64 of a PDF file begins."""

_MEDIA = ("iVBOR", "/9j/", "R0lGOD", "UklGR", PDF)  # the others are PNG, JPEG, GIF and WebP


def kept_tokens(message: ChatMessage, count: Callable[[str], int], count_media: Callable[[str], int]) -> int:
    """Return an estimate of the tokens of what ``message`` keeps for a provider, beside what it says.

    - What is text costs the tokens of the text.
    - What is encrypted costs what it holds at four bytes a token. Nobody but the provider can count it.
    - Signed thinking costs its text, or its signature if that is more: a signature holds the thinking of which the text
      may be a summary. At Gemini it costs both, because the summary is a part of its own. Thinking that nothing is kept
      beside is not sent, so it costs nothing.
    - An image or a PDF file that a tool at the provider made costs as any other.

    Args:
        message: any message.
        count: returns the tokens of a text.
        count_media: returns the tokens of an image or a PDF file, given its Base64.
    """
    if not isinstance(message, (AiMessage, UserMessage, ToolExecutionResultMessage)):
        return 0
    kept = {name: message.attributes[name] for name in ATTRIBUTES if name in message.attributes}
    if not kept:
        return 0

    def tokens(leaf: str) -> int:
        if not _OPAQUE.fullmatch(leaf):
            return count(leaf)
        return count_media(leaf) if leaf.startswith(_MEDIA) else round(len(leaf) / _CHARS_PER_TOKEN)

    text, whole = _said(message)
    leaves: Counter[tuple[bool, str]] = Counter()
    for name, value in kept.items():
        # Two formats may keep the same, and one may have it twice.
        leaves |= Counter(
            (key in _SIGNATURES, leaf) for key, leaf in _leaves(value, name) if leaf not in whole and leaf not in text
        )
    signed, others = (
        sum(number * tokens(leaf) for (is_signature, leaf), number in leaves.items() if is_signature is wanted)
        for wanted in (True, False)
    )
    thinking = message.thinking if isinstance(message, AiMessage) else None
    if thinking and GEMINI in kept:
        signed += count(thinking)
    elif thinking and signed:
        signed = max(signed, count(thinking))
    return signed + others


def _said(message: AiMessage | UserMessage | ToolExecutionResultMessage) -> tuple[str, set[str]]:
    """Return the text of a message, and the strings that it contains as a whole. What is stored may repeat parts of
    them.
    """
    if isinstance(message, AiMessage):
        names = {request.name or "" for request in message.tool_execution_requests}
        documents = [request.arguments or "" for request in message.tool_execution_requests]
        return f"{message.text or ''}\n{message.thinking or ''}", names.union(*map(_strings, documents))
    texts = [content.text for content in message.contents if isinstance(content, TextContent)]
    media = [getattr(content, "media", None) for content in message.contents]
    data = {getattr(medium, name, None) or "" for medium in media for name in ("base64_data", "url")}
    return "\n".join(texts), data.union(*map(_strings, texts))


def _strings(document: str) -> set[str]:
    """Return ``document``, and the strings that are in it if it is JSON, in which they may be escaped."""
    with suppress(ValueError, RecursionError):
        return {document, *(leaf for _, leaf in _leaves(json.loads(document), ""))}
    return {document}


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield each string that counts, with its key or the key of the list that contains it."""
    if isinstance(value, str):
        # LangChain4j joins the signatures of several thoughts.
        yield from ((key, leaf) for leaf in (value.split("\n") if key in _SIGNATURES else [value]))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _NOT_COUNTED:
                yield from _leaves(item, name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item, key)
