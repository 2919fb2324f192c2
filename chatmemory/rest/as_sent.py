"""Messages of other versions of LangChain4j, which go out as they came; the row notes how that was.

Up to 1.12 a tool result has ``text``, later ``contents``; up to 1.1 an answer has no ``attributes``, and one that has
cannot be read. Later versions read both.
"""

from __future__ import annotations

from typing import Any

from chatmemory.core.serialization.writer import message_to_data
from chatmemory.database.native_forms import NativeForms
from chatmemory.models import Message

__all__ = ["how_they_came", "row_to_data"]

_FRAMEWORK = "langchain4j"
_AS_TEXT = "text"
_BARE = "without attributes"


def how_they_came(data: list[Any]) -> NativeForms:
    """Return the note for each message of a list in LangChain4j's JSON, which was read without an error."""
    return NativeForms(_FRAMEWORK, [_how_it_came(item) for item in data])


def _how_it_came(item: dict[str, Any]) -> str | None:
    match item["type"]:
        case "TOOL_EXECUTION_RESULT" if isinstance(item.get("text"), str) and not item.get("attributes"):
            return _AS_TEXT
        case "AI" if item.get("attributes") is None:
            return _BARE
    return None


def row_to_data(row: Message) -> dict[str, Any]:
    """Return the message of a row in LangChain4j's JSON."""
    data = message_to_data(row.message)
    came = None if row.native is None else row.native_of(_FRAMEWORK)
    if came == _AS_TEXT:
        rest = {key: value for key, value in data.items() if key not in {"contents", "attributes", "type"}}
        return {**rest, "text": row.text, "type": data["type"]}
    if came == _BARE:
        del data["attributes"]
    return data
