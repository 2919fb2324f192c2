"""Files of LangChain4j's ``ChatMessageSerializer``: a JSON array of messages for each memory.

Up to version 0.25, a user's message has a text in place of contents; before 0.25, an answer has at most one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chatmemory.core.serialization import read_message
from chatmemory.transfer.files import Source, read_json
from chatmemory.transfer.records import BadRecordError, Found, FoundConversation, FoundMessage
from chatmemory.transfer.sources.json_items import placed_items

__all__ = ["read_langchain4j"]


def read_langchain4j(source: Source, memory_id: str) -> Found:
    """Yield the one conversation of a file."""
    yield FoundConversation(place=source.name, memory_id=memory_id, messages=_messages(source))


def _messages(source: Source) -> Iterator[FoundMessage | BadRecordError]:
    try:
        for place, text in placed_items(source):
            try:
                yield FoundMessage(place=place, message=read_message(_as_now(read_json(text))))
            except (ValueError, RecursionError) as error:
                yield BadRecordError(place, str(error))
    except ValueError as error:
        yield BadRecordError(source.name, str(error))


def _as_now(data: Any) -> Any:
    """Return a message of an early version as version 1 writes it; anything else as it is."""
    match data:
        case {"type": "USER", "text": text, **others} if "contents" not in others:
            return {"type": "USER", "contents": [{"type": "TEXT", "text": text}], **others}
        case {"type": "AI", "toolExecutionRequest": request, **others} if "toolExecutionRequests" not in others:
            return {"type": "AI", "toolExecutionRequests": [request], **others}
    return data
