"""DRF's serializers, and the dicts that the views answer with."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from typing import Any, ClassVar

from rest_framework import serializers

from chatmemory.conf import setting
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps
from chatmemory.core.serialization.storable import require_json
from chatmemory.database.change import MESSAGE_FIELDS, MemorySize, WindowTrial, messages_to_data
from chatmemory.database.reading import fresh_rows
from chatmemory.formats.registry import MessageFormat
from chatmemory.models import DESCRIBED, EVICTION_REASONS, MAX_LIMIT, WINDOW_SETTINGS, WINDOWS, Conversation, Message
from chatmemory.rest.fields import (
    CountField,
    MemoryMessagesField,
    MessageField,
    OwnerField,
    StrictSerializer,
    TokensField,
)
from chatmemory.rest.problems import invalid

__all__ = [
    "ChangeSerializer",
    "ConversationChangeSerializer",
    "ConversationSerializer",
    "HistoryItemSerializer",
    "MemorySerializer",
    "MemorySizeSerializer",
    "NewConversationSerializer",
    "PageSerializer",
    "WindowSerializer",
    "change_to_data",
    "changed_memory_to_data",
    "memory_to_data",
    "message_items",
]

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

    example: ClassVar[dict[str, Any]] = {
        "id": "01935c5e-0000-7000-8000-000000000001",
        **{"memory_id": "support-42", "title": "Support", "metadata": {"topic": "cats"}, "model": "gpt-4o"},
        **{"limit": 20, "low_water": 100, "version": 2, "message_count": 3, "retained_count": 2},
        "retained_tokens": 23,
    }
    sometimes = ("owner",)

    owner = OwnerField(
        source="owner_id", help_text="The primary key of its owner, null for nobody. Only with `?owner=`."
    )

    class Meta:
        model = Conversation
        fields = ["id", "memory_id", *DESCRIBED, *WINDOW_SETTINGS, *_COUNTERS, "created_at", "updated_at", "owner"]
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
        fields = [name for name in ConversationSerializer.Meta.fields if name != "owner"]

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
    """What changes of a conversation."""

    undescribed = ("memory_id",)  # it is taken if it is the same


class WindowSerializer(_LimitedSerializer):
    """The window of a memory."""

    class Meta:
        model = Conversation
        fields = WINDOW_SETTINGS


class HistoryItemSerializer(serializers.ModelSerializer[Message]):
    """A message and what became of it."""

    example: ClassVar[dict[str, Any]] = {"type": "USER", "text": "Hello! My name is Ann.", "token_count": 11}

    message = MessageField(
        allow_null=True,
        help_text="In the format that was asked for; null if that cannot express it, or for staff who may not read it.",
    )
    state = serializers.ChoiceField(["retained", "evicted"], help_text="In the memory now, or no longer.")
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
                "help_text": "What was said as plain text; empty if there is none, or for staff who may not read it."
            },
            "origin": {
                "help_text": "How it came into the memory: somebody said it; a rewrite put it in; it is a copy of a "
                "message that could not stay in its place; it is the placeholder of a tool result (cleared), or a "
                "summary."
            },
            "covers_from": {"help_text": "The first position that it stands for; null if it stands for no other."},
            "covers_to": {"help_text": "The last position that it stands for."},
            "added_in": {"help_text": "The version of the memory with which it came."},
            "evicted_in": {"help_text": "The version of the memory with which it left."},
        }


class _BoundedSerializer(serializers.Serializer[Any]):
    window = serializers.ChoiceField(WINDOWS, help_text="What is bounded: the number of messages, or of their tokens.")
    limit = serializers.IntegerField(min_value=1, max_value=MAX_LIMIT, help_text="At most so many messages or tokens.")


class MemorySizeSerializer(_BoundedSerializer):
    """The size of a memory, and of its window."""

    example: ClassVar[dict[str, Any]] = {"limit": 20, "messages": 2, "tokens": 23}

    messages = CountField()
    tokens = TokensField()


class ChangeSerializer(serializers.Serializer[Any]):
    """What a change did to the memory."""

    example: ClassVar[dict[str, Any]] = {"version": 2}

    added = HistoryItemSerializer(many=True, help_text="What is new in the memory.")
    evicted = HistoryItemSerializer(many=True, help_text="What left the memory.")
    memory = MemorySizeSerializer()
    version = CountField(help_text=_VERSION)


class MemorySerializer(_BoundedSerializer):
    """What the model gets."""

    example: ClassVar[dict[str, Any]] = {"limit": 20, "tokens": 11, "version": 2}

    messages: Any = MemoryMessagesField()
    tokens = TokensField(help_text="Of these messages.")
    version = CountField(help_text=_VERSION)


class PageSerializer(serializers.Serializer[Any]):
    """One page."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


def message_items(rows: Iterable[Message], format: MessageFormat, *, with_text: bool = True) -> list[Any]:
    """Return the history items of one conversation's rows. A message that the format cannot express is null.

    With ``with_text`` false, the items have neither text nor message.
    """
    hidden = {} if with_text else {"text": "", "message": None}
    serializer: Any = _message_serializer()  # it reads dicts as well as rows
    return [serializer.to_representation({**item, **hidden}) for item in messages_to_data(rows, format)]


@cache
def _message_serializer() -> HistoryItemSerializer:
    """Return the one serializer of all items: to make its fields takes far longer than to render an item."""
    return HistoryItemSerializer()


def change_to_data(
    memory: MemorySize, added: Iterable[Message], evicted: Iterable[Message], format: MessageFormat
) -> dict[str, Any]:
    """Return what a change did, as :class:`ChangeSerializer` has it. ``memory`` is the size after it."""
    items = {"added": message_items(added, format), "evicted": message_items(evicted, format)}
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
) -> dict[str, Any]:
    """Return a memory, of which ``rows`` are the rows, with what a change, or a trial, added and evicted."""
    messages = format.write_memory([row.message for row in rows], fresh_rows(rows, memory.prefix_version))
    items = {"added": message_items(added, format), "evicted": message_items(evicted, format)}
    return {**memory_to_data(rows, messages, memory, memory.version), **items}
