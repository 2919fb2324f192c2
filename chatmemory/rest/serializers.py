"""DRF's serializers, and the dicts that the views answer with."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any, Literal

from rest_framework import serializers

from chatmemory.conf import setting
from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps
from chatmemory.core.serialization.storable import require_json
from chatmemory.database.change import Change
from chatmemory.database.operations.try_window import WindowTrial
from chatmemory.database.plain_data import MESSAGE_FIELDS, MessageData, messages_to_data
from chatmemory.database.prefix import fresh_rows
from chatmemory.formats.registry import MessageFormat
from chatmemory.models import WINDOW_SETTINGS, Conversation, Message
from chatmemory.rest.strict import StrictSerializer

__all__ = [
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


class _WindowedSerializer(StrictSerializer, serializers.ModelSerializer[Conversation]):
    """A serializer with the settings of a window."""

    def get_fields(self) -> dict[str, Any]:
        # To make them from the model takes as long as the rest of a request. None depends on the request.
        return deepcopy(_model_fields(type(self)))

    def validate_limit(self, value: int) -> int:
        most: int = setting("MAX_LIMIT")
        # A larger limit may stay: the project's own code set it.
        if value > most and value != getattr(self.instance, "limit", None):
            raise serializers.ValidationError(f"expected at most {most}")
        return value


@cache
def _model_fields(serializer: type[_WindowedSerializer]) -> dict[str, Any]:
    return super(_WindowedSerializer, serializer()).get_fields()


class ConversationSerializer(_WindowedSerializer):
    """A conversation: its window and counters."""

    class Meta:
        model = Conversation
        fields = [
            "id",
            "memory_id",
            "title",
            "metadata",
            *WINDOW_SETTINGS,
            "version",
            "message_count",
            "retained_count",
            "retained_tokens",
            "created_at",
            "updated_at",
        ]
        read_only_fields = ["version", "message_count", "retained_count", "retained_tokens"]
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
            "window": {"help_text": "What is bounded: the number of messages, or of their tokens."},
            "limit": {"help_text": "At most so many messages or tokens. Each kind of window has a default of its own."},
            "always_keep_system_message_first": {"help_text": "Puts a new system message in front."},
            "low_water": {
                "help_text": "A full window evicts down to this percent of its limit. 100: only as much as needed."
            },
            "whole_turns": {
                "help_text": "Whether whole turns leave: a user message with all that follows it before the next one."
            },
            "keep_tool_results": {
                "help_text": "How many tool results stay when the window is full and older ones give way to "
                "placeholders. null: none gives way."
            },
            "compact_at": {
                "help_text": "A summary of older turns is due when the memory has reached this percent of its limit, "
                "or the window has evicted messages that no summary stands for. null: never."
            },
            "version": {"help_text": "Of the memory: every change of it adds one."},
            "message_count": {"help_text": "Messages said."},
            "retained_count": {"help_text": "Messages in the memory."},
            "retained_tokens": {"help_text": "Tokens of the memory."},
        }

    def to_representation(self, instance: Conversation) -> dict[str, Any]:
        data = super().to_representation(instance)
        if self.context.get("with_owner"):
            data["owner"] = instance.owner_id
        return data if self.context.get("with_words", True) else {**data, "metadata": {}}

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


class WindowSerializer(_WindowedSerializer):
    """The window of a memory."""

    class Meta:
        model = Conversation
        fields = WINDOW_SETTINGS
        extra_kwargs = {name: {"required": False} for name in WINDOW_SETTINGS}


class MessageSerializer(serializers.ModelSerializer[Message]):
    """A message and what became of it, rendered from its plain data."""

    message = serializers.SerializerMethodField(
        help_text="In the format that was asked for; null if that cannot express it, or for staff who may not read it."
    )
    state = serializers.SerializerMethodField(help_text="In the memory now, or no longer.")
    reason = serializers.SerializerMethodField(
        help_text="Why it was evicted: there was no room in the window; its tool call was evicted (orphan); a new "
        "system message replaced it; a rewrite dropped it; the memory was cleared; a placeholder took the place of an "
        "old tool result (tool_cleared); a summary stands for it (summarized)."
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

    def get_message(self, item: MessageData) -> Any:
        return item["message"]

    def get_state(self, item: MessageData) -> Literal["retained", "evicted"]:
        return item["state"]

    def get_reason(self, item: MessageData) -> EvictionReason | None:
        return item["reason"]


def message_items(rows: list[Message], format: MessageFormat, *, with_words: bool = True) -> Any:
    """Return the history items of one conversation's rows. A message that the format cannot express is null.

    Args:
        rows: the rows.
        format: the format of the messages.
        with_words: whether the items have the text and the message.
    """
    items = messages_to_data(rows, format)
    if not with_words:
        items = [{**item, "text": "", "message": None} for item in items]
    return _rendered(items)


def change_to_data(change: Change, format_name: str) -> dict[str, Any]:
    """Return what a change did, with its messages as history items."""
    data = change.to_data(format_name)
    return {**data, "added": _rendered(data["added"]), "evicted": _rendered(data["evicted"])}


def _rendered(items: Any) -> Any:
    serializer = _message_serializer()
    return [serializer.to_representation(item) for item in items]


@cache
def _message_serializer() -> MessageSerializer:
    """Return the one serializer of all items: to make its fields takes far longer than to render an item."""
    return MessageSerializer()


def memory_to_data(rows: list[Message], messages: Any, conversation: Conversation, version: int) -> dict[str, Any]:
    """Return a memory. ``rows`` are its rows at ``version``, ``messages`` the same in the format of the answer."""
    return {
        "messages": messages,
        "tokens": sum(row.token_count for row in rows),
        "window": conversation.window,
        "limit": conversation.limit,
        "version": version,
    }


def trial_to_data(trial: WindowTrial, format: MessageFormat) -> dict[str, Any]:
    """Return the memory that a trial leads to, with the messages that it adds and evicts."""
    for row, reason in trial.evicted:
        row.evicted_in = trial.version + 1
        row.eviction_reason = reason.value
    return {
        "messages": format.write_memory(
            [row.message for row in trial.retained], fresh_rows(trial.retained, trial.prefix_version)
        ),
        "tokens": trial.tokens,
        "window": trial.window,
        "limit": trial.limit,
        "version": trial.version,
        "added": message_items(trial.added, format),
        "evicted": message_items([row for row, _ in trial.evicted], format),
    }
