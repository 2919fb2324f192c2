"""The embedded model: it repeats what it finds in its memory. What it is not given, it does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from demo_project.chat.summarizer import is_summary, quotes, text_of
from demo_project.chat.tools import look_up_order

__all__ = ["answer"]

_I_AM = (
    "I am a small program in this demo, not a language model, and I know only what is in my memory. Tell me something, "
    "for example your name, and ask me for it; or ask where order 1001 is."
)
_NOTED = "Noted: I know it as long as your message is in my memory."
_FORGOTTEN = "Nothing in my memory tells me that. If you told me, I have forgotten it."

_ORDER = re.compile(r"\b(?:orders?|parcels?|packages?)\b", re.IGNORECASE)
_GREETS = re.compile(r"\W*(?:hi|hello|hey|help|good (?:morning|day|evening))\W*|.*\bare you\b.*", re.IGNORECASE)
_ASKS = re.compile(
    r"\s*(?:what|who|which|where|when|how|why|is|are|am|do|does|did|can|could|tell me|remind me|i forgot)\b"
    r"|.*[?？]\s*$",
    re.IGNORECASE | re.DOTALL,
)
_FUNCTION_WORD = re.compile(
    r"a|about|am|and?|are|can|could|did|does?|do|for|forgot|have|how|i|is|it|know|me|my|of|remember|remind|s|say|tell|"
    r"that|the|this|to|was|were|what|whats|when|where|which|who|why|you|your"
)


def answer(messages: Sequence[ChatMessage]) -> AiMessage:
    """Return the bot's answer, or its calls of tools. It uses nothing but ``messages``."""
    results = [*takewhile(lambda message: isinstance(message, ToolExecutionResultMessage), reversed(messages))]
    if results:
        told = " ".join(filter(None, map(text_of, reversed(results))))
        return AiMessage(told or "The tools gave me nothing that I can read.")
    said = next((text_of(message) for message in reversed(messages) if isinstance(message, UserMessage)), None)
    if said is None or _GREETS.fullmatch(said):
        return AiMessage(_I_AM)
    if not said.strip():
        return AiMessage(f"I can read text only. {_I_AM}")
    if _ORDER.search(said) and (numbers := re.findall(r"\d+", said)):
        calls = enumerate({"number": number} for number in numbers)
        name, first = look_up_order.__name__, len(messages)
        return AiMessage(
            None, [ToolExecutionRequest(f"call_{first}_{index}", name, json.dumps(given)) for index, given in calls]
        )
    if not _ASKS.match(said):
        return AiMessage(_NOTED)
    found = _recall(said, messages)
    return AiMessage("\n".join(["You said:", *(f"“{text}”" for text in found)]) if found else _FORGOTTEN)


def _recall(question: str, messages: Sequence[ChatMessage]) -> list[str]:
    """Return the statement that has the most words of the question, the latest of several; if it has no words, all."""
    statements = list(dict.fromkeys(said for said in _said(messages) if not _ASKS.match(said)))
    asked = _words(question)
    if not asked:
        return statements
    best = max(reversed(statements), key=lambda said: len(asked & _words(said)), default="")
    return [best] if asked & _words(best) else []


def _said(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """Yield what the user said: a summary and an answer may repeat it when the message has left."""
    for message in messages:
        if isinstance(message, AiMessage) or is_summary(message):
            yield from quotes(text_of(message))
        elif isinstance(message, UserMessage):
            yield " ".join(text_of(message).split())


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if not _FUNCTION_WORD.fullmatch(word)}
