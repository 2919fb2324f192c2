"""Files of LangChain4j's ``ChatMessageSerializer``: a JSON array of messages for each memory.

Up to version 0.25, a user's message has a text in place of contents; before 0.25, an answer has at most one call.
"""

from __future__ import annotations

from typing import Any

from chatmemory.core.serialization import read_message
from chatmemory.transfer.files import Source, read_items
from chatmemory.transfer.records import Found, FoundConversation, FoundMessage


def read_langchain4j(source: Source, memory_id: str) -> Found:
    """Yield the one conversation of a file."""
    messages = read_items(source, _message)
    yield FoundConversation(place=source.name, memory_id=memory_id, messages=messages)


def _message(place: str, data: Any) -> FoundMessage:
    return FoundMessage(place=place, message=read_message(_as_now(data)))


def _as_now(data: Any) -> Any:
    """Return a message of an early version as version 1 writes it; anything else as it is."""
    match data:
        case {"type": "USER", "text": text, **others} if "contents" not in others:
            return {"type": "USER", "contents": [{"type": "TEXT", "text": text}], **others}
        case {"type": "AI", "toolExecutionRequest": request, **others} if "toolExecutionRequests" not in others:
            return {"type": "AI", "toolExecutionRequests": [request], **others}
    return data
