"""Tool results as LangChain4j up to 1.12 writes and reads them: with ``text``, where later versions have ``contents``.

Later versions read both. So a result goes out as it came, and the row notes how that was.
"""

from __future__ import annotations

from typing import Any

from chatmemory.core.serialization.writer import message_to_data
from chatmemory.database.native_forms import NativeForms
from chatmemory.models import Message

__all__ = ["how_they_came", "row_to_data"]

_FRAMEWORK = "langchain4j"
_AS_TEXT = "text"


def how_they_came(data: list[Any]) -> NativeForms:
    """Return the note for each message of a list in LangChain4j's JSON, which was read without an error."""
    forms = [
        _AS_TEXT
        if item["type"] == "TOOL_EXECUTION_RESULT" and isinstance(item.get("text"), str) and not item.get("attributes")
        else None
        for item in data
    ]
    return NativeForms(_FRAMEWORK, forms)


def row_to_data(row: Message) -> dict[str, Any]:
    """Return the message of a row in LangChain4j's JSON."""
    data = message_to_data(row.message)
    if row.native is None or row.native_of(_FRAMEWORK) != _AS_TEXT:
        return data
    rest = {key: value for key, value in data.items() if key not in {"contents", "attributes", "type"}}
    return {**rest, "text": row.text, "type": data["type"]}
