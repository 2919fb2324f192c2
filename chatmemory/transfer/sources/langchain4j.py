"""Files of LangChain4j's ``ChatMessageSerializer``: a JSON array of messages for each memory."""

from __future__ import annotations

import json
from collections.abc import Iterator

from chatmemory.core.serialization.reader import read_message
from chatmemory.transfer.files import Source
from chatmemory.transfer.found import Found, FoundConversation, FoundMessage
from chatmemory.transfer.reports import BadRecordError
from chatmemory.transfer.sources.json_items import items

__all__ = ["read_langchain4j"]


def read_langchain4j(source: Source, memory_id: str) -> Found:
    """Yield the one conversation of a file."""
    yield FoundConversation(place=source.name, memory_id=memory_id, messages=_messages(source))


def _messages(source: Source) -> Iterator[FoundMessage | BadRecordError]:
    try:
        for line, text in items(source.text):
            place = f"{source.name}:{line}"
            try:
                yield FoundMessage(place=place, message=read_message(json.loads(text)))
            except (ValueError, RecursionError) as error:
                yield BadRecordError(place, str(error))
    except ValueError as error:
        yield BadRecordError(source.name, str(error))
