"""Messages in a short notation, for scenarios that people read.

``S text``, ``U text`` and ``A text`` are a system message, a user's and an answer; ``A text > weather1 clock2`` is an
answer with two calls, of the tools "weather" and "clock", whose IDs are "weather1" and "clock2"; ``R weather1 text`` is
the result of the first, ``E weather1 text`` if it is marked as an error; ``P weather1`` and ``PE weather1`` are their
placeholders; ``C text`` is a custom message. Behind a text, ``*20`` stands for 20 times " word". A message that has no
such form is the JSON of LangChain4j.
"""

from __future__ import annotations

import re
from typing import Any

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import message_to_data, read_message

__all__ = ["message_of", "short"]

_PLACEHOLDER = "[Old tool result cleared]"


def message_of(notation: str | dict[str, Any]) -> ChatMessage:
    """The message that a notation stands for."""
    if isinstance(notation, dict):
        return read_message(notation)
    kind, _, rest = notation.partition(" ")
    match kind:
        case "S":
            return SystemMessage(_text(rest))
        case "U":
            return UserMessage(_text(rest))
        case "A":
            text, _, ids = rest.partition(">")
            requests = [ToolExecutionRequest(id, _tool(id), "{}") for id in ids.split()]
            return AiMessage(_text(text.strip()) or None, requests)
        case "R" | "E":
            id, _, text = rest.partition(" ")
            return ToolExecutionResultMessage(id, _tool(id), _text(text), is_error=True if kind == "E" else None)
        case "P" | "PE":
            is_error = True if kind == "PE" else None
            return ToolExecutionResultMessage(rest, _tool(rest), _PLACEHOLDER, is_error=is_error)
        case "C":
            return CustomMessage({"text": rest})
    raise ValueError(f"no notation of a message: {notation!r}")


def short(message: ChatMessage) -> str | dict[str, Any]:
    """The notation that stands for a message."""
    guess = _guess(message)
    try:
        is_right = message_of(guess) == message
    except ValueError:
        is_right = False
    return guess if is_right else message_to_data(message)


def _guess(message: ChatMessage) -> str:
    text = re.sub("((?: word)+)$", lambda found: f" *{len(found[1]) // len(' word')}", message.text or "")
    match message:
        case AiMessage():
            calls = "".join(f" {request.id}" for request in message.tool_execution_requests)
            return f"A {text}".strip() + (f" >{calls}" if calls else "")
        case ToolExecutionResultMessage():
            error = "E" if message.is_error else ""
            return f"P{error} {message.id}" if text == _PLACEHOLDER else f"{error or 'R'} {message.id} {text}"
        case CustomMessage():
            return f"C {message.attributes.get('text')}"
    return f"{message.type[0]} {text}"


def _text(notation: str) -> str:
    return re.sub(r" \*(\d+)$", lambda found: " word" * int(found[1]), notation)


def _tool(id: str) -> str:
    return re.sub(r"\d+$", "", id)
