"""Messages to and from the JSON that LangChain4j writes.

``message_to_json`` and ``messages_to_json`` return its text, character for character. The readers take what it
writes (and the older form of tool results, with ``text``), and refuse everything that is not exactly that, with
the place: ``[3].toolExecutionRequests[0].name: expected a string, got a number``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chatmemory.core.arguments import require_list
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps, java_map_order, loads
from chatmemory.core.messages import ChatMessage, UserMessage
from chatmemory.core.serialization.reader import read_message, read_messages
from chatmemory.core.serialization.writer import message_to_data

__all__ = ["message_from_json", "message_to_json", "messages_from_json", "messages_to_json"]


def message_to_json(message: ChatMessage | None) -> str:
    """Return the JSON text of one message.

    Raises:
        TypeError: an attribute has no JSON form.
    """
    data = None if message is None else message_to_data(message)
    if isinstance(message, UserMessage) and data and message.attributes:
        # LangChain4j copies these, and only these, into a HashMap.
        data["attributes"] = {key: data["attributes"][key] for key in java_map_order(data["attributes"])}
    return dumps(data)


def messages_to_json(messages: Iterable[ChatMessage | None] | None) -> str:
    """Return the JSON text of a list of messages.

    Raises:
        TypeError: ``messages`` is no list, or an attribute has no JSON form.
    """
    if messages is None:
        return "null"
    return "[" + ",".join(map(message_to_json, require_list(messages, "messages"))) + "]"


def message_from_json(text: str) -> ChatMessage:
    """Read one message.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place.
    """
    return read_message(_parsed(text))


def messages_from_json(text: str | None) -> list[ChatMessage]:
    """Read a list of messages; from None and from ``null`` an empty one.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place.
    """
    return read_messages(None if text is None else _parsed(text))


def _parsed(text: str) -> Any:
    if text is None:
        raise InvalidMessageError("expected JSON text, got null", code="null")
    try:
        return loads(text)
    except ValueError as error:
        raise InvalidMessageError(error) from error
