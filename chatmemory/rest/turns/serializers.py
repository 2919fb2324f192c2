"""The bodies and answers of turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers

from chatmemory.conf import setting
from chatmemory.core.messages import UserMessage
from chatmemory.database.new_messages import NewMessages
from chatmemory.formats.json_schema import NOT_BLANK, Schema, closed, constant, list_of, ref, text
from chatmemory.formats.registry import BUILT_IN, MessageFormat, message_format, message_formats
from chatmemory.rest.fields import CountField, MessageField, read_one
from chatmemory.rest.problems import invalid
from chatmemory.rest.serializers import ChangeSerializer

__all__ = ["NewTurnSerializer", "TurnSerializer", "UIMessagesSerializer", "is_from_use_chat"]

_LONGEST_ID = 255


class NewTurnSerializer(serializers.BaseSerializer[Any]):
    """What the user says: `message`, or what the AI SDK's `useChat` sends."""

    def run_validation(self, data: Any = None) -> tuple[NewMessages | None, str | None]:
        """Read the body.

        The message has none of the attributes in which formats keep what a provider gets again. Of the messages of
        ``useChat`` only the last one of the user is read: the others are in the database, and what a browser says of
        them is not to be believed.

        Returns:
            the user's message, or None to go on from where the conversation stands; and the ID that ``useChat`` gave
            it.

        Raises:
            ValidationError, InvalidMessageError: the body is something else, or its message is too long, or not of a
                user.
        """
        if not isinstance(data, Mapping):
            raise invalid("", 'expected an object, such as {"message": "Hello"}', code="invalid_type")
        if is_from_use_chat(data):
            return _read_use_chat(data)
        unknown = next((name for name in data if name != "message"), None)
        if unknown is not None:
            raise invalid(
                unknown[:100], "unknown field; expected message, or the body that useChat sends", code="unknown_field"
            )
        given = data.get("message")
        return (None if given is None else _read_message(given, self.context["format"])), None

    def openapi(self) -> Schema:
        """Return the schema."""
        most = setting("MAX_MESSAGE_CHARS") - 200  # for what is around it
        message = {
            "anyOf": [
                text(minLength=1, maxLength=most, pattern=NOT_BLANK),
                ref("UserMessage"),
                ref("OpenAiUserMessage"),
                {"type": "null"},
            ],
            "description": "What the user says: a text or a message. Without it the turn goes on from where the "
            "conversation stands, after a failure for example.",
        }
        part = closed({"type": constant("text"), "text": text(pattern=NOT_BLANK, maxLength=1000)})
        said = {
            "id": text("The idempotency key.", minLength=1, maxLength=255, pattern="^[!-~]+$"),
            "role": constant("user"),
            "parts": list_of(part, "Files may be among them, too.", minItems=1),
        }
        messages = list_of(
            {"type": "object", "properties": said, "required": [*said]},
            "Only the last one whose role is user is read. Of the other fields none is.",
            minItems=1,
        )
        use_chat = {"type": "object", "properties": {"messages": messages}, "required": ["messages"]}
        return {"anyOf": [closed({}, {"message": message}), use_chat]}


class UsageSerializer(serializers.Serializer[Any]):
    """The tokens that the model's server counted."""

    input_tokens = CountField(allow_null=True)
    output_tokens = CountField(allow_null=True)
    cached_input_tokens = CountField(allow_null=True)
    reasoning_tokens = CountField(allow_null=True)


class TurnSerializer(ChangeSerializer):
    """An answer, and what the turn added and evicted."""

    example: ClassVar[dict[str, Any]] = {
        "version": 2,
        "answer": {"text": "Hello, Ann!", "toolExecutionRequests": [], "attributes": {}, "type": "AI"},
    }

    answer = MessageField(help_text="In the format that was asked for.")
    usage = UsageSerializer(
        allow_null=True,
        help_text="Of all calls of the turn together; null where it said nothing, or was not asked.",
    )


class UIMessagesField(serializers.ReadOnlyField):
    """Messages as the AI SDK's ``useChat`` has them."""

    example: Any = [{"id": "0", "role": "user", "parts": [{"type": "text", "text": "Hello! My name is Ann."}]}]

    def openapi(self) -> Schema:
        """Return the schema."""
        return list_of(ref("UIMessage"))


class UIMessagesSerializer(serializers.Serializer[Any]):
    """What was said, as `useChat` shows it."""

    messages = UIMessagesField(help_text="The latest 50 turns, without the answer of a running one.")
    before = CountField(allow_null=True, help_text="For older ones; null: there are none.")
    running = serializers.BooleanField(
        help_text="Whether a turn runs, whose answer turns/stream/ has. If that is a 204, the turn has ended; read "
        "again."
    )


def is_from_use_chat(data: Any) -> bool:
    """Return whether a body is one of the AI SDK's ``useChat``."""
    return isinstance(data, Mapping) and "messages" in data


def _read_message(given: Any, format: MessageFormat) -> NewMessages:
    if isinstance(given, str):
        if not given.strip():
            raise invalid("message", "is empty; to go on from where the conversation stands leave it out", code="blank")
        given = {"type": "USER", "contents": [{"type": "TEXT", "text": given}]}
        format = BUILT_IN["langchain4j"]
    if not isinstance(given, Mapping):
        raise invalid("message", "expected a text, or a message of the user", code="invalid_type")
    return _read_said(given, format, "message")


def _read_use_chat(data: Mapping[str, Any]) -> tuple[NewMessages, str | None]:
    messages = data["messages"]
    if not isinstance(messages, list):
        raise invalid("messages", "expected a list of UIMessages", code="invalid_type")
    place, found = next(
        (
            (f"messages[{index}]", one)
            for index, one in reversed(list(enumerate(messages)))
            if isinstance(one, Mapping) and one.get("role") == "user"
        ),
        ("messages", None),
    )
    if found is None:
        raise invalid(place, "expected a message whose role is user", code="required")
    id = found.get("id")
    if id is not None and not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID and id.isprintable()):
        raise invalid(f"{place}.id", "expected 1 to %(most)s printable characters", most=_LONGEST_ID)
    return _read_said(found, message_format("ai-sdk"), place), id


def _read_said(data: Any, format: MessageFormat, place: str) -> NewMessages:
    """Read one message of the user."""
    messages = read_one(data, place, format)
    if len(messages) != 1 or not isinstance(messages[0], UserMessage):
        raise invalid(place, "expected a message of the user: the model answers it", code="invalid_choice")
    return _without_kept_attributes(messages, messages[0])


def _without_kept_attributes(said: NewMessages, message: UserMessage) -> NewMessages:
    """Return the message without the attributes of formats: what a browser puts there would be sent to a provider."""
    known = {name for format in message_formats().values() for name in format.attributes}
    if not known & message.attributes.keys():
        return said
    others = {name: value for name, value in message.attributes.items() if name not in known}
    return NewMessages([UserMessage(message.contents, name=message.name, attributes=others)])
