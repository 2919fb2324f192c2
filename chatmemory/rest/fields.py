"""The fields of bodies and answers, and the strictness of all bodies.

For the document a field or a serializer may have a method ``openapi``, which returns its JSON Schema, and an
``example``; a serializer also ``bounds()``, the limits that are settings, ``sometimes``, the names of the fields that
not every answer has, and ``undescribed``, those that are left out. Without these all derives from its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.utils.translation import gettext_noop as _
from rest_framework import serializers

from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.numbers import whole_number
from chatmemory.core.serialization.storable import require_json
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.formats.json_schema import Schema, list_of, ref
from chatmemory.formats.registry import BUILT_IN, MessageFormat, message_formats
from chatmemory.models import MAX_LIMIT
from chatmemory.rest.problems import TooLarge, invalid

__all__ = [
    "EXAMPLE",
    "CountField",
    "MemoryMessagesField",
    "MessageField",
    "MessagesField",
    "NewMessagesSerializer",
    "OwnerField",
    "StrictSerializer",
    "TokensField",
    "WholeNumberField",
    "WholeSerializer",
    "read_list",
    "read_one",
    "require_length",
]

EXAMPLE = {"type": "USER", "contents": [{"type": "TEXT", "text": "Hello! My name is Ann."}]}
"""The message of all examples."""

_READABLE = ("ChatMessage", "OpenAiMessage")
"""The schemas of messages in bodies. Bodies of other formats are taken, but their schemas are not exact."""


class CountField(serializers.IntegerField):
    """A number of things, a position or a version."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=MAX_LIMIT, **kwargs)


class TokensField(serializers.IntegerField):
    """A number of tokens, which has no bound."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, **kwargs)


class WholeNumberField(CountField):
    """A whole number in a query, by default None."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(default=None, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        number = whole_number(data, most=MAX_LIMIT)
        if number is None:
            raise invalid("", "expected a whole number from 0 to %(most)s", most=MAX_LIMIT)
        return number


class OwnerField(serializers.ReadOnlyField):
    """The primary key of an owner."""

    def openapi(self) -> Schema:
        return {"type": ["integer", "string", "null"]}


class MessageField(serializers.ReadOnlyField):
    """A message that is written already, in the format that was asked for."""

    in_format = True
    example: Any = EXAMPLE

    def openapi(self) -> Schema:
        found = [_schema_of(format) for format in message_formats().values() if format.write_each]
        return {"anyOf": [*found, *([{"type": "null"}] if self.allow_null else [])]}


class MemoryMessagesField(serializers.ReadOnlyField):
    """A memory that is written already, in the format that was asked for."""

    in_format = True
    example: Any = [EXAMPLE]

    def __init__(self, *, each: bool = False, **kwargs: Any) -> None:
        """With ``each``, only formats can be asked for that have a value for each message."""
        self.each = each
        super().__init__(help_text="What the model gets, in order, in the format that was asked for.", **kwargs)

    def openapi(self) -> Schema:
        formats = [format for format in message_formats().values() if format.write_each or not self.each]
        return {"anyOf": [list_of(_schema_of(each)) if each.write_each else _schema_of(each) for each in formats]}


def _schema_of(format: MessageFormat) -> Schema:
    return ref(next(iter(format.schemas))) if format.schemas else {"description": f"Of the format {format.title}."}


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses unknown fields, and values of another type instead of converting them."""

    _json_types: ClassVar[list[tuple[type[serializers.Field], type, str]]] = [  # type: ignore[type-arg]
        (serializers.BooleanField, bool, "true or false"),
        (serializers.IntegerField, int, "a whole number"),
        (serializers.ChoiceField, str, "a string"),
        (serializers.CharField, str, "a string"),
        (serializers.JSONField, dict, "an object"),
        (serializers.ListField, list, "a list"),
        (serializers.ListSerializer, list, "a list"),
    ]

    def run_validation(self, data: Any = None) -> Any:
        if not isinstance(data, dict):
            raise invalid("", "expected an object", code="null" if data is None else "invalid_type")
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        for name, value in data.items():
            field = self.fields.get(name)
            if field is None:
                raise invalid(name[:100], "unknown field; leave it out", code="unknown_field")
            self._check_type(name, field, value)
            # These read the value themselves, and may ignore a part of it.
            if not isinstance(field, (MessagesField, serializers.BaseSerializer)):
                # Even a value that is no valid choice, because the error quotes it.
                try:
                    require_json(value, name)
                except InvalidMessageError as error:
                    raise invalid(error.place, error) from error  # which gets the path to this serializer, too
        return super().to_internal_value(data)

    def _check_type(self, name: str, field: Any, value: Any) -> None:
        for kind, expected, words in self._json_types:
            if isinstance(field, kind) and not field.read_only:
                if type(value) is not expected and not (value is None and field.allow_null):
                    template = "expected %(expected)s or null" if field.allow_null else "expected %(expected)s"
                    raise invalid(name, template, code="null" if value is None else "invalid_type", expected=words)
                break
        if isinstance(field, serializers.ListField):
            for index, item in enumerate(value):
                self._check_type(f"{name}[{index}]", field.child, item)


class WholeSerializer(serializers.BaseSerializer[Any]):
    """A reader of a body that is no object of fields. Null is for it to refuse, too."""

    def run_validation(self, data: Any = None) -> Any:
        return self.to_internal_value(data)


class MessagesField(serializers.Field[Any, Any, Any, Any]):
    """A list of messages in the format of the request."""

    in_format = True
    default_error_messages = {
        "required": "missing; expected a list of messages",
        "null": "expected a list of messages",
        "empty": "expected at least one message",
    }
    example: Any = [EXAMPLE]

    def __init__(self, *, most: str, least: int = 0, **kwargs: Any) -> None:
        """``most`` is the name of the setting that bounds their number; ``least`` is 1 if there must be one."""
        self.most, self.least = most, least
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> NewMessages:
        messages = read_list(data, str(self.field_name), self.context["format"], self.most)
        if len(messages) < self.least:
            self.fail("empty")
        return messages

    def openapi(self) -> Schema:
        bounds = {"minItems": self.least, "maxItems": setting(self.most)}
        return {"anyOf": [list_of(ref(name), **bounds) for name in _READABLE]}


class MessageBatchSerializer(StrictSerializer):
    """Several messages."""

    messages = MessagesField(most="MAX_BATCH", least=1)


class NewMessagesSerializer(WholeSerializer):
    """One message, or several that are added all or none; `format` says in which format."""

    in_format = True

    def to_internal_value(self, data: Any) -> NewMessages:
        if isinstance(data, list):
            raise InvalidMessageError(
                'expected an object, got a list; several messages are sent as {"messages": [...]}', code="invalid_type"
            )
        if not (isinstance(data, dict) and "messages" in data and not {"type", "role"} & set(data)):
            return read_one(data, "", self.context["format"])
        messages: NewMessages = MessageBatchSerializer(context=self.context).run_validation(data)["messages"]
        return messages

    def openapi(self) -> Schema:
        return {"anyOf": [*map(ref, _READABLE), MessageBatchSerializer]}


def read_list(
    data: Any,
    place: str,
    format: MessageFormat,
    most: str | None = None,
    native: Callable[[list[Any]], NativeForms] | None = None,
) -> NewMessages:
    """Read the messages of a list.

    Args:
        data: the list.
        place: its place in the body, for errors.
        format: the format of each message.
        most: the name of the setting that bounds their number.
        native: returns the forms that are stored beside the messages of the list; None to store none.

    Raises:
        InvalidMessageError: it is no list, or one is no message of the format, or too long.
        TooLarge: there are too many.
    """
    if not isinstance(data, list):
        raise InvalidMessageError("expected a list of messages", place, code="invalid_type")
    if most is not None and len(data) > setting(most):
        raise TooLarge(count=len(data), most=setting(most))
    assert format.read is not None  # it was asked for before anything was done
    try:
        messages = NewMessages(format.read(data, place), native and native(data))
    except InvalidMessageError as error:
        hint = _hint(data, format)
        if hint is None:
            raise
        raise InvalidMessageError(hint, error.place, code=error.code, problem=error) from error
    for index, length in enumerate(messages.lengths):
        require_length(f"{place}[{index}]", length)
    return messages


def read_one(data: Any, place: str, format: MessageFormat) -> NewMessages:
    """Read one message, which some formats split.

    Raises:
        InvalidMessageError: as above.
    """
    try:
        return read_list([data], "", format)
    except InvalidMessageError as error:
        within = error.place.partition("]")[2]
        raise InvalidMessageError(error, f"{place}{within}".removeprefix(".")) from error


def _hint(data: list[Any], format: MessageFormat) -> str | None:
    """Return the message about messages that look like those of another format; None if they do not."""
    keys = [set(item) & {"role", "type"} for item in data if isinstance(item, dict)]
    if format is BUILT_IN["langchain4j"] and {"role"} in keys:
        return (
            "%(problem)s. This looks like OpenAI's format: conversations/ takes it with ?format=openai, stores/ does "
            "not"
        )
    if format is BUILT_IN["openai"] and {"type"} in keys:
        return "%(problem)s. This looks like LangChain4j's format: leave out ?format=openai"
    return None


def require_length(place: str, length: int) -> None:
    """Raise if the message, or the text, at a place has more than ``MAX_MESSAGE_CHARS`` characters."""
    most = setting("MAX_MESSAGE_CHARS")
    if length > most:
        template = _("has %(count)s characters; at most %(most)s are stored")
        raise InvalidMessageError(template, place, code="max_length", count=length, most=most)
