"""The body of a request for a turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.exceptions import ValidationError

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import UserMessage
from chatmemory.database.operations.new_messages import NewMessages
from chatmemory.formats.registry import BUILT_IN, MessageFormat, message_format, message_formats
from chatmemory.rest.bodies import read_list
from chatmemory.rest.problems import invalid

__all__ = ["AskedTurn", "read_turn"]

_LONGEST_KEY = 255


@dataclass(frozen=True, kw_only=True)
class AskedTurn:
    """The turn that a request asks for."""

    said: NewMessages | None
    """The user's message, alone; None to go on from where the conversation stands."""

    key: str | None
    """The idempotency key: the ID that ``useChat`` gave the message; None if the body has none."""

    is_from_use_chat: bool
    """Whether the body is one of the AI SDK's ``useChat``."""

    @property
    def message(self) -> UserMessage | None:
        """The user's message, if there is one."""
        message = None if self.said is None else self.said[0]
        assert message is None or isinstance(message, UserMessage)
        return message


def read_turn(data: Any, format: MessageFormat) -> AskedTurn:
    """Read ``{"message": …}``, or the body that ``useChat`` sends.

    The message has none of the attributes in which formats keep what a provider gets again. Of the messages of
    ``useChat`` only the last one of the user is read: the others are in the database, and what a
    browser says of them is not to be believed.

    Args:
        data: the parsed body.
        format: the format of the message, unless it is a text or comes from ``useChat``.

    Raises:
        ValidationError, InvalidMessageError: the body is something else, or its message is too long, or not of a user.
    """
    if not isinstance(data, Mapping):
        raise invalid("", 'expected an object, such as {"message": "Hello"}')
    if "messages" in data:
        return _read_use_chat(data)
    unknown = next((name for name in data if name != "message"), None)
    if unknown is not None:
        raise invalid(unknown[:100], "unknown field; expected message, or the body that useChat sends")
    given = data.get("message")
    if given is None:
        return AskedTurn(said=None, key=None, is_from_use_chat=False)
    if isinstance(given, str):
        if not given.strip():
            raise invalid("message", "is empty; to go on from where the conversation stands leave it out")
        given = {"type": "USER", "contents": [{"type": "TEXT", "text": given}]}
        format = BUILT_IN["langchain4j"]
    if not isinstance(given, Mapping):
        raise invalid("message", "expected a text, or a message of the user")
    said = _read_said(given, format, "message")
    return AskedTurn(said=said, key=None, is_from_use_chat=False)


def _read_use_chat(data: Mapping[str, Any]) -> AskedTurn:
    messages = data["messages"]
    if not isinstance(messages, list):
        raise invalid("messages", "expected a list of UIMessages")
    place, found = next(
        (
            (f"messages[{index}]", one)
            for index, one in reversed(list(enumerate(messages)))
            if isinstance(one, Mapping) and one.get("role") == "user"
        ),
        ("messages", None),
    )
    if found is None:
        raise invalid(place, "expected a message whose role is user")
    key = found.get("id")
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise invalid(f"{place}.id", f"expected 1 to {_LONGEST_KEY} printable characters")
    said = _read_said(found, message_format("ai-sdk"), place)
    return AskedTurn(said=said, key=key, is_from_use_chat=True)


def _read_said(data: Any, format: MessageFormat, place: str) -> NewMessages:
    """Read one message of the user."""
    try:
        messages = read_list([data], "", format, "MAX_BATCH")
    except InvalidMessageError as error:
        raise InvalidMessageError(error.problem, f"{place}{error.place.removeprefix('[0]')}") from error
    except ValidationError as error:  # it is too long
        problems: Any = error.detail
        raise ValidationError({place: [*problems.values()]}) from error
    if len(messages) != 1 or not isinstance(messages[0], UserMessage):
        raise invalid(place, "expected a message of the user: the model answers it")
    return _without_kept_pieces(messages, messages[0])


def _without_kept_pieces(said: NewMessages, message: UserMessage) -> NewMessages:
    """Return the message without the attributes of formats: what a browser puts there would be sent to a provider."""
    known = {name for format in message_formats().values() for name in format.attributes}
    if not known & message.attributes.keys():
        return said
    others = {name: value for name, value in message.attributes.items() if name not in known}
    return NewMessages([UserMessage(message.contents, name=message.name, attributes=others)])
