"""The fields and serializers of bodies and answers, and the dicts that the views answer with. All bodies are strict.

For the document a field or a serializer may have a method ``openapi``, which returns its JSON Schema;
a serializer also ``bounds()``, the limits that are settings, ``sometimes``, the names of the fields that not every
answer has, and ``undescribed``, those that are left out. Without these all derives from its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache
from typing import Any, ClassVar

from django.utils.translation import gettext_noop as _
from rest_framework import serializers

from chatmemory.capabilities import filled
from chatmemory.conf import setting
from chatmemory.core.arguments import whole_number
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps, require_json
from chatmemory.core.messages import UserMessage
from chatmemory.core.window import PRESETS, without_preset
from chatmemory.database.change import MESSAGE_FIELDS, MemorySize, WindowTrial, messages_to_data
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.reading import display_titles, fresh_rows
from chatmemory.formats import MessageFormat
from chatmemory.formats.registry import BUILT_IN, message_formats
from chatmemory.formats.schemas import Schema, list_of, ref
from chatmemory.models import (
    DESCRIBED,
    EVICTION_REASONS,
    MAX_LIMIT,
    WINDOW_SETTINGS,
    WINDOWS,
    Conversation,
    Message,
    WrittenBy,
)
from chatmemory.rest.problems import TooLarge, invalid
from chatmemory.rest.reader import Reader

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


class DisplayTitleField(serializers.ReadOnlyField):
    """The title of a conversation, or its first words. A page of conversations takes one statement."""

    _names: dict[Any, str] | None = None

    def get_attribute(self, instance: Conversation) -> str:
        if instance.title or not self.context.get("with_text", True):
            return instance.title
        if self._names is None:
            page = getattr(self.parent.parent, "instance", None)
            self._names = display_titles([instance] if page is None else page)
        return self._names.get(instance.pk, "")

    def openapi(self) -> Schema:
        return {"type": "string"}


class MessageField(serializers.ReadOnlyField):
    """A message that is written already, in the format that was asked for."""

    in_format = True

    def openapi(self) -> Schema:
        found = [_schema_of(format) for format in message_formats().values() if format.write_each]
        return {"anyOf": [*found, *([{"type": "null"}] if self.allow_null else [])]}


class MemoryMessagesField(serializers.ReadOnlyField):
    """A memory that is written already, in the format that was asked for."""

    in_format = True

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
            if not isinstance(field, (MessagesField, NewMessageField, serializers.BaseSerializer)):
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

    def __init__(self, *, most: str, least: int = 0, **kwargs: Any) -> None:
        """``most`` is the name of the setting that bounds their number; ``least`` is 1 if there must be one."""
        self.most, self.least = most, least
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> NewMessages:
        messages = read_list(
            data, str(self.field_name), self.context["format"], self.most, written_by=self.context["written_by"]
        )
        if len(messages) < self.least:
            self.fail("empty")
        return messages

    def openapi(self) -> Schema:
        bounds = {"minItems": self.least, "maxItems": setting(self.most)}
        return {"anyOf": [list_of(ref(name), **bounds) for name in _READABLE]}


class NewMessageField(serializers.Field[Any, Any, Any, Any]):
    """One message of the user, in the format of the request."""

    in_format = True

    def to_internal_value(self, data: Any) -> UserMessage:
        messages = read_one(data, str(self.field_name), self.context["format"])
        if len(messages) != 1 or not isinstance(message := messages[0], UserMessage):
            raise invalid("", "expected a message of the user", code="invalid_choice")
        return message

    def openapi(self) -> Schema:
        return {"anyOf": [ref("UserMessage"), ref("OpenAiUserMessage")]}


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
            return read_one(data, "", self.context["format"], written_by=self.context["written_by"])
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
    written_by: str = "",
) -> NewMessages:
    """Read the messages of a list.

    Args:
        data: the list.
        place: its place in the body, for errors.
        format: the format of each message.
        most: the name of the setting that bounds their number.
        native: returns the forms that are stored beside the messages of the list; None to store none.
        written_by: who wrote the messages.

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
        read = format.read(data, place)
        messages = NewMessages(read, native and native(data), written_by=written_by)
    except InvalidMessageError as error:
        hint = _hint(data, format)
        if hint is None:
            raise
        raise InvalidMessageError(hint, error.place, code=error.code, problem=error) from error
    for index, length in enumerate(messages.lengths):
        require_length(f"{place}[{index}]", length)
    return messages


def read_one(data: Any, place: str, format: MessageFormat, written_by: str = "") -> NewMessages:
    """Read one message, which some formats split.

    Raises:
        InvalidMessageError: as above.
    """
    try:
        return read_list([data], "", format, written_by=written_by)
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


# MariaDB takes JSON of 32 levels.
_DEEPEST_METADATA = 30

_VERSION = "Of the memory: every change of it adds one."

_COUNTERS = {
    "version": _VERSION,
    "message_count": "Messages said.",
    "retained_count": "Messages in the memory.",
    "retained_tokens": "Tokens of the memory.",
}


class _WindowedSerializer(serializers.ModelSerializer[Conversation]):
    """A serializer with the settings of a window."""

    def get_fields(self) -> dict[str, Any]:
        # To make them from the model takes as long as the rest of a request. None depends on the request.
        return deepcopy(_model_fields(type(self)))


@cache
def _model_fields(serializer: type[_WindowedSerializer]) -> dict[str, Any]:
    return super(_WindowedSerializer, serializer()).get_fields()


class _LimitedSerializer(StrictSerializer, _WindowedSerializer):
    """A serializer that takes the settings of a window."""

    preset = serializers.ChoiceField(
        list(PRESETS),
        required=False,
        write_only=True,
        help_text="Settings that suit a use; those that are given beside it hold before its own.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return without_preset(super().validate(attrs))

    def validate_limit(self, value: int) -> int:
        most: int = setting("MAX_LIMIT")
        # A larger limit may stay: the project's own code set it.
        if value > most and value != getattr(self.instance, "limit", None):
            raise invalid("", "expected at most %(most)s", code="max_value", most=most)
        return value

    def bounds(self) -> dict[str, Any]:
        """Return what settings bound, by field."""
        return {"limit": {"maximum": setting("MAX_LIMIT")}}


class ConversationSerializer(_WindowedSerializer):
    """A conversation: its settings and counters."""

    sometimes = ("owner",)

    owner = OwnerField(
        source="owner_id", help_text="The primary key of its owner, null for nobody. Only with `?owner=`."
    )
    display_title = DisplayTitleField(
        help_text="The title. Without one, the beginning of the user's first text; empty if there is none, or for "
        "staff who may not read what messages say."
    )

    class Meta:
        model = Conversation
        fields = [
            "id",
            "memory_id",
            "display_title",
            *DESCRIBED,
            *WINDOW_SETTINGS,
            *_COUNTERS,
            "created_at",
            "updated_at",
            "owner",
        ]
        extra_kwargs = {
            "memory_id": {
                "help_text": "What the application calls the conversation; unique among yours. By default a UUID.",
                "trim_whitespace": False,
                "allow_blank": False,  # stores/ has no address for ""
            },
            "title": {"help_text": "For people; spaces around it are taken off."},
            "metadata": {
                "help_text": f"Anything the application wants to keep; nested at most {_DEEPEST_METADATA} levels deep. "
                "Empty for staff who may not read what messages say."
            },
            **{name: {"help_text": help} for name, help in _COUNTERS.items()},
        }

    def to_representation(self, instance: Conversation) -> dict[str, Any]:
        data = super().to_representation(instance)
        if not self.context.get("with_owner"):
            del data["owner"]
        return data if self.context.get("with_text", True) else {**data, "metadata": {}}


class NewConversationSerializer(_LimitedSerializer, ConversationSerializer):
    """The settings of a new conversation, or of one that changes."""

    class Meta(ConversationSerializer.Meta):
        fields = [*(name for name in ConversationSerializer.Meta.fields if name != "owner"), "preset"]

    def validate_memory_id(self, value: str) -> str:
        if self.instance is not None and value != self.instance.memory_id:
            raise invalid("", "cannot be changed; leave it out")
        return value

    def validate_metadata(self, value: dict[str, Any]) -> dict[str, Any]:
        try:
            require_json(value, "metadata", deepest=_DEEPEST_METADATA)
        except InvalidMessageError as error:
            raise invalid("", "%(place)s: %(problem)s", code=error.code, place=error.place, problem=error) from error
        length, most = len(dumps(value)), setting("MAX_METADATA_CHARS")
        if length > most:
            raise invalid(
                "",
                "has %(count)s characters as JSON; at most %(most)s are stored",
                code="max_length",
                count=length,
                most=most,
            )
        return value


class ConversationChangeSerializer(NewConversationSerializer):
    """The changes to a conversation."""

    undescribed = ("memory_id",)  # it is taken if it is the same


class WindowSerializer(_LimitedSerializer):
    """The window of a memory."""

    class Meta:
        model = Conversation
        fields = (*WINDOW_SETTINGS, "preset")


class HistoryItemSerializer(serializers.ModelSerializer[Message]):
    """A message and what became of it."""

    message = MessageField(
        allow_null=True,
        help_text="In the format that was asked for; null if that cannot express it, or for staff who may not read it. "
        "For users who may not read them, instructions and tool results are placeholders, and calls have no arguments.",
    )
    state = serializers.ChoiceField(["retained", "evicted"], help_text="In the memory now, or no longer.")
    written_by = serializers.ChoiceField(
        ["", *WrittenBy.values],
        help_text="Who added it: an assistant; a client, over REST; staff, in the conversation of another user; or an "
        "import. Empty for the site's own code, and for what replaces other messages.",
    )
    reason = serializers.ChoiceField(
        EVICTION_REASONS,
        allow_null=True,
        help_text="Why it was evicted. "
        + "; ".join(f"`{reason.value}`: {reason.explanation}" for reason in EvictionReason)
        + ".",
    )
    synthetic = serializers.BooleanField(
        help_text="Nobody said it, so the history leaves it out: its origin is not said."
    )
    pinned = serializers.BooleanField(help_text="It is in the memory, and the window may not evict it.")

    class Meta:
        model = Message
        fields = MESSAGE_FIELDS
        read_only_fields = fields
        extra_kwargs = {
            "text": {
                "help_text": "What was said as plain text; empty if there is none, or for those who may not read it."
            },
            "origin": {
                "help_text": "How it came into the memory: somebody said it; a rewrite put it in; it is a copy of a "
                "message that could not stay in its place; it is the placeholder of a tool result (cleared), or a "
                "summary."
            },
            "covers_from": {"help_text": "The first position that it covers; null if it covers no other."},
            "covers_to": {"help_text": "The last position that it covers."},
            "added_in": {"help_text": "The version of the memory with which it came."},
            "evicted_in": {"help_text": "The version of the memory with which it left."},
        }

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), **{each.name: each.schema for each in filled("message_fields")}}

    @property
    def sometimes(self) -> list[str]:
        """The fields of capabilities, which only the calls of messages add."""
        return [each.name for each in filled("message_fields")]


class _BoundedSerializer(serializers.Serializer[Any]):
    window = serializers.ChoiceField(WINDOWS, help_text="What the limit counts: messages, or their tokens.")
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, help_text="The largest number of messages or tokens."
    )


class MemorySizeSerializer(_BoundedSerializer):
    """The size of a memory, and of its window."""

    messages = CountField()
    tokens = TokensField()


class ChangeSerializer(serializers.Serializer[Any]):
    """The effect of a change on the memory."""

    added = HistoryItemSerializer(many=True, help_text="What is new in the memory.")
    evicted = HistoryItemSerializer(many=True, help_text="What left the memory.")
    memory = MemorySizeSerializer()
    version = CountField(help_text=_VERSION)


class MemorySerializer(_BoundedSerializer):
    """The messages that the model gets."""

    messages: Any = MemoryMessagesField()
    tokens = TokensField(help_text="Of these messages.")
    version = CountField(help_text=_VERSION)


class PageSerializer(serializers.Serializer[Any]):
    """One page."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


def message_items(rows: Iterable[Message], format: MessageFormat, reader: Reader) -> list[Any]:
    """Return the history items of one conversation's rows. A message that the format cannot express is null.

    If the reader may not read any text, the items have neither text nor message.
    """
    hidden = {} if reader.text else {"text": "", "message": None}
    serializer: Any = _message_serializer()  # it reads dicts as well as rows
    items = messages_to_data(reader.rows(rows), format)
    return [serializer.to_representation({**item, **hidden}) for item in items]


@cache
def _message_serializer() -> HistoryItemSerializer:
    """Return the one serializer of all items: to make its fields takes far longer than to render an item."""
    serializer = HistoryItemSerializer()
    for name in serializer.sometimes:
        del serializer.fields[name]
    return serializer


def change_to_data(
    memory: MemorySize, added: Iterable[Message], evicted: Iterable[Message], format: MessageFormat, reader: Reader
) -> dict[str, Any]:
    """Return what a change did, as ``ChangeSerializer`` has it. ``memory`` is the size after it."""
    items = {"added": message_items(added, format, reader), "evicted": message_items(evicted, format, reader)}
    return {**items, **memory.to_data()}


def memory_to_data(
    rows: list[Message], messages: Any, memory: Conversation | WindowTrial, version: int
) -> dict[str, Any]:
    """Return a memory. ``rows`` are its rows at ``version``, ``messages`` the same in the format of the answer."""
    return {
        "messages": messages,
        "tokens": sum(row.token_count for row in rows),
        "window": memory.window,
        "limit": memory.limit,
        "version": version,
    }


def changed_memory_to_data(
    memory: Conversation | WindowTrial,
    rows: list[Message],
    added: Iterable[Message],
    evicted: Iterable[Message],
    format: MessageFormat,
    reader: Reader,
) -> dict[str, Any]:
    """Return a memory, of which ``rows`` are the rows, with what a change, or a trial, added and evicted."""
    shown = [row.message for row in reader.rows(rows)]
    messages = format.write_memory(shown, fresh_rows(rows, memory.prefix_version))
    items = {"added": message_items(added, format, reader), "evicted": message_items(evicted, format, reader)}
    return {**memory_to_data(rows, messages, memory, memory.version), **items}
