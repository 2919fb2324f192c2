"""What goes over the wire."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps
from chatmemory.core.serialization.storable import require_json
from chatmemory.database.change import Change
from chatmemory.database.message_data import MESSAGE_FIELDS, MessageData, messages_to_data
from chatmemory.database.operations.try_window import WindowTrial
from chatmemory.formats.registry import MessageFormat
from chatmemory.models import Conversation, Message

__all__ = [
    "WINDOW_FIELDS",
    "ConversationSerializer",
    "MessageSerializer",
    "WindowSerializer",
    "change_to_data",
    "memory_to_data",
    "message_items",
    "trial_to_data",
]

# MariaDB takes JSON of 32 levels.
_DEEPEST_METADATA = 30

WINDOW_FIELDS = ["window", "limit", "model", "always_keep_system_message_first"]


class _StrictSerializer(serializers.ModelSerializer[Conversation]):
    """Takes no field that it does not know, and no value of another type that could be made to fit."""

    _json_types: ClassVar[list[tuple[type[serializers.Field], type, str]]] = [  # type: ignore[type-arg]
        (serializers.BooleanField, bool, "true or false"),
        (serializers.IntegerField, int, "a whole number"),
        (serializers.ChoiceField, str, "a string"),
        (serializers.CharField, str, "a string"),
    ]

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            for name, value in data.items():
                field = self.fields.get(name)
                if field is None:
                    shown = name[:100].encode("utf-8", "backslashreplace").decode()
                    raise serializers.ValidationError({shown: "unknown field; leave it out"})
                self._check_type(name, field, value)
                # Also what is a wrong choice anyhow, for an error would quote it.
                require_json(value, name)
        return super().to_internal_value(data)

    def _check_type(self, name: str, field: Any, value: Any) -> None:
        for kind, expected, words in self._json_types:
            if isinstance(field, kind) and not field.read_only:
                if type(value) is not expected:
                    raise serializers.ValidationError({name: f"expected {words}"})
                return


class ConversationSerializer(_StrictSerializer):
    """A conversation: its window and counters."""

    class Meta:
        model = Conversation
        fields = [
            "id",
            "memory_id",
            "title",
            "metadata",
            *WINDOW_FIELDS,
            "version",
            "message_count",
            "retained_count",
            "retained_tokens",
            "created_at",
            "updated_at",
        ]
        read_only_fields = ["version", "message_count", "retained_count", "retained_tokens"]
        extra_kwargs = {"memory_id": {"trim_whitespace": False, "allow_blank": False}}  # stores/ has no address for ""

    def validate_memory_id(self, value: str) -> str:
        if self.instance is not None and value != self.instance.memory_id:
            raise serializers.ValidationError("cannot be changed; leave it out")
        return value

    def validate_metadata(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise serializers.ValidationError("expected an object")
        try:
            require_json(value, "metadata", deepest=_DEEPEST_METADATA)
        except InvalidMessageError as error:
            raise serializers.ValidationError(str(error)) from error
        length, most = len(dumps(value)), setting("MAX_METADATA_CHARS")
        if length > most:
            raise serializers.ValidationError(f"has {length} characters as JSON; at most {most} are stored")
        return value


class WindowSerializer(_StrictSerializer):
    """What bounds a memory."""

    class Meta:
        model = Conversation
        fields = WINDOW_FIELDS
        extra_kwargs = {name: {"required": False} for name in WINDOW_FIELDS}


class MessageSerializer(serializers.ModelSerializer[Message]):
    """A message and what became of it, rendered from its plain data."""

    message = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField()
    reason = serializers.SerializerMethodField()

    class Meta:
        model = Message
        fields = MESSAGE_FIELDS
        read_only_fields = fields

    def get_message(self, item: MessageData) -> Any:
        return item["message"]

    def get_state(self, item: MessageData) -> str:
        return item["state"]

    def get_reason(self, item: MessageData) -> str | None:
        return item["reason"]


def message_items(rows: list[Message], format: MessageFormat) -> Any:
    """Return the history items of one conversation's rows."""
    return _rendered(messages_to_data(rows, format))


def change_to_data(change: Change, format_name: str) -> dict[str, Any]:
    """Return what a change did, with its messages as history items."""
    data = change.to_data(format_name)
    return {**data, "added": _rendered(data["added"]), "evicted": _rendered(data["evicted"])}


def _rendered(items: Any) -> Any:
    return MessageSerializer(items, many=True).data


def memory_to_data(rows: list[Message], messages: Any, conversation: Conversation, version: int) -> dict[str, Any]:
    """A memory: ``rows`` are those of its messages at ``version``, which are written already."""
    return {
        "messages": messages,
        "tokens": sum(row.token_count for row in rows),
        "window": conversation.window,
        "limit": conversation.limit,
        "version": version,
    }


def trial_to_data(trial: WindowTrial, format: MessageFormat) -> dict[str, Any]:
    """What a memory would be, what would be added to it, and what would leave."""
    for row, reason in trial.evicted:
        row.evicted_in = trial.version + 1
        row.eviction_reason = reason.value
    return {
        "messages": format.write([row.message for row in trial.retained], None),
        "tokens": trial.tokens,
        "window": trial.window,
        "limit": trial.limit,
        "version": trial.version,
        "added": message_items(trial.added, format),
        "evicted": message_items([row for row, _ in trial.evicted], format),
    }
