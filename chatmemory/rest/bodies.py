"""The messages in the bodies of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import ChatMessage
from chatmemory.database.native_forms import NativeForms
from chatmemory.database.operations.new_messages import NewMessages
from chatmemory.formats.registry import BUILT_IN, MessageFormat
from chatmemory.rest.problems import TooLarge, invalid

__all__ = ["read_batch", "read_list", "read_memory"]


def read_batch(data: Any, format: MessageFormat) -> NewMessages:
    """Read the messages to add: one message, or ``{"messages": [...]}``.

    Raises:
        InvalidMessageError: ``data`` is neither.
        TooLarge: there are more than ``MAX_BATCH`` messages.
        ValidationError: there is none, or one is too long.
    """
    if isinstance(data, list):
        raise InvalidMessageError('expected an object, got a list; several messages are sent as {"messages": [...]}')
    if not (isinstance(data, dict) and "messages" in data and not {"type", "role"} & set(data)):
        return _bounded(NewMessages(_read_one(data, format)), None)
    messages = read_list(_only_messages(data), "messages", format, "MAX_BATCH")
    if not messages:
        raise invalid("messages", "expected at least one message")
    return messages


def read_memory(data: Any, format: MessageFormat) -> NewMessages:
    """Read a whole memory: ``{"messages": [...]}``.

    Raises:
        InvalidMessageError, TooLarge, ValidationError: as above.
    """
    if not isinstance(data, dict) or "messages" not in data:
        raise invalid("messages", "missing; expected a list of messages")
    return read_list(_only_messages(data), "messages", format, "MAX_MEMORY_MESSAGES")


def read_list(
    data: Any, place: str, format: MessageFormat, most: str, native: Callable[[list[Any]], NativeForms] | None = None
) -> NewMessages:
    """Read the messages of a list.

    Args:
        data: the list.
        place: its place in the body, for errors.
        format: the format of each message.
        most: the name of the setting that bounds their number.
        native: returns the forms that are stored beside the messages of the list; None to store none.

    Raises:
        InvalidMessageError, TooLarge, ValidationError: as above.
    """
    if not isinstance(data, list):
        raise invalid(place, "expected a list of messages")
    if len(data) > setting(most):
        raise TooLarge(f"{len(data)} messages; at most {setting(most)} are taken at once.")
    messages = _read(data, place, format)
    return _bounded(NewMessages(messages, native and native(data)), place)


def _only_messages(data: dict[str, Any]) -> Any:
    extra = next((key for key in data if key != "messages"), None)
    if extra is not None:
        raise InvalidMessageError("unknown field; leave it out", extra[:100])
    return data["messages"]


def _read_one(data: Any, format: MessageFormat) -> list[ChatMessage]:
    try:
        return _read([data], "", format)
    except InvalidMessageError as error:
        raise InvalidMessageError(error.problem, error.place.removeprefix("[0]").removeprefix(".")) from error


def _read(data: Any, place: str, format: MessageFormat) -> list[ChatMessage]:
    assert format.read is not None  # it was asked for before anything was done
    try:
        return format.read(data, place)
    except InvalidMessageError as error:
        raise InvalidMessageError(f"{error.problem}{_hint(data, format)}", error.place) from error


def _hint(data: list[Any], format: MessageFormat) -> str:
    """Return what to do with messages that look like those of another format; empty if they do not."""
    keys = [set(item) & {"role", "type"} for item in data if isinstance(item, dict)]
    if format is BUILT_IN["langchain4j"] and {"role"} in keys:
        return ". This looks like OpenAI's format: conversations/ takes it with ?format=openai, stores/ does not"
    if format is BUILT_IN["openai"] and {"type"} in keys:
        return ". This looks like LangChain4j's format: leave out ?format=openai"
    return ""


def _bounded(messages: NewMessages, place: str | None) -> NewMessages:
    """Return ``messages``; raise if one is too long. The place is that of their list; None for a message alone."""
    longest = setting("MAX_MESSAGE_CHARS")
    for index, length in enumerate(messages.lengths):
        if length > longest:
            where = "" if place is None else f"{place}[{index}]"
            raise invalid(where, f"has {length} characters; at most {longest} are stored")
    return messages
