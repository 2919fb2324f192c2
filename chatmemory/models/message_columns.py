"""A message as columns, and back.

``text`` is what people read and search. ``payload`` is JSON text of only what ``text`` cannot express, and null for
a plain text message, so that most rows are read without parsing. It is text rather than a JSON column because
PostgreSQL's would reorder keys and rewrite numbers, and what was said must come back as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import MAX_DOCUMENT_CHARS, dumps, loads
from chatmemory.core.messages import AiMessage, ChatMessage, ChatMessageType, SystemMessage, UserMessage
from chatmemory.core.serialization.reader import read_message
from chatmemory.core.serialization.storable import require_storable
from chatmemory.core.serialization.writer import message_to_data

__all__ = ["from_columns", "to_columns"]

# Matches what dumps() writes for U+0000, for half a surrogate pair, and for numbers that may be too long for loads().
# The lookbehind lets it begin only at the first digit: otherwise it would count the same digits from each of them.
_DOUBTFUL = re.compile(r"\\u0000|[\ud800-\udfff]|(?<![-+.0-9Ee])[-+.0-9Ee]{900}")

_PLAIN: dict[str, Callable[[str], ChatMessage]] = {
    ChatMessageType.USER: UserMessage,
    ChatMessageType.AI: AiMessage,
    ChatMessageType.SYSTEM: SystemMessage,
}


def to_columns(message: ChatMessage) -> dict[str, Any]:
    """Return ``type``, ``text`` and ``payload`` of a message.

    Raises:
        InvalidMessageError: a ``ValueError``; a text holds U+0000 or half of a surrogate pair.
        TypeError: an attribute has no JSON form.
    """
    whole = message_to_data(message)
    data = {key: value for key, value in whole.items() if key != "type"}
    text = data.pop("text", None)
    contents = data.get("contents")
    if contents is not None:
        text = "\n".join(content["text"] for content in contents if content["type"] == "TEXT")
        if len(contents) == 1 and contents[0]["type"] == "TEXT":
            del data["contents"]
    elif isinstance(message, AiMessage) and text is None:
        data["text"] = None
    for optional in ("toolExecutionRequests", "attributes"):
        if not data.get(optional, True):
            del data[optional]
    payload = dumps(data) if data else None
    if payload is not None and (_DOUBTFUL.search(payload) or len(payload) > MAX_DOCUMENT_CHARS):
        # Reading it back finds what no database can hold or nobody could read again, and names the place.
        read_message(loads(dumps(whole)))
    return {"type": str(message.type), "text": require_storable(text or "", "text"), "payload": payload}


def from_columns(type: str, text: str, payload: str | None) -> ChatMessage:
    """Return the message of a row. Unknown fields of its payload are ignored: a newer version may have written them.

    Raises:
        ValueError: other hands wrote a payload that says no message.
    """
    if payload is None:
        plain = _PLAIN.get(type)
        if plain is not None:
            return plain(text)
    data = {} if payload is None else loads(payload)
    if not isinstance(data, dict):
        raise InvalidMessageError("expected an object", "payload", code="invalid_type")
    data["type"] = type
    if type in (ChatMessageType.USER, ChatMessageType.TOOL_EXECUTION_RESULT):
        data.setdefault("contents", [{"type": "TEXT", "text": text}])
    elif type in (ChatMessageType.AI, ChatMessageType.SYSTEM):
        data.setdefault("text", text)
    return read_message(data, strict=False)
