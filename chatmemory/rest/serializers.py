"""What goes over the wire."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from chatmemory.codec import message_to_data
from chatmemory.conf import setting
from chatmemory.exceptions import InvalidMessageError
from chatmemory.ledger import Change
from chatmemory.messages import ChatMessage
from chatmemory.models import Conversation, Message
from chatmemory.reader import read_message, read_messages, require_json
from chatmemory.rows import to_columns
from chatmemory.trial import fit_rows

__all__ = ["ConversationSerializer", "MessageSerializer", "change_to_data", "memory_to_data", "read_body"]


# MariaDB takes JSON of 32 levels.
_DEEPEST_METADATA = 30


class ConversationSerializer(serializers.ModelSerializer[Conversation]):
    """A conversation: its window and counters."""

    class Meta:
        model = Conversation
        fields = [
            "id",
            "memory_id",
            "title",
            "metadata",
            "window",
            "limit",
            "model",
            "always_keep_system_message_first",
            "version",
            "message_count",
            "retained_count",
            "retained_tokens",
            "created_at",
            "updated_at",
        ]
        read_only_fields = ["version", "message_count", "retained_count", "retained_tokens"]
        extra_kwargs = {"memory_id": {"trim_whitespace": False}}

    def validate_metadata(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise serializers.ValidationError("Expected an object.")
        try:
            require_json(value, "metadata", deepest=_DEEPEST_METADATA)
        except InvalidMessageError as error:
            raise serializers.ValidationError(str(error)) from error
        return value

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            for name, value in data.items():
                if name not in self.fields:
                    shown = name[:100].encode("utf-8", "backslashreplace").decode()
                    raise serializers.ValidationError({shown: "Unknown field; leave it out."})
                try:
                    # Also what is a wrong choice anyhow, for an error would quote it.
                    require_json(value, name)
                except InvalidMessageError as error:
                    raise serializers.ValidationError({name: str(error)}) from error
        return super().to_internal_value(data)


class MessageSerializer(serializers.ModelSerializer[Message]):
    """A message and what became of it."""

    message = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField()
    reason = serializers.SerializerMethodField()

    class Meta:
        model = Message
        fields = [
            "position",
            "type",
            "text",
            "message",
            "state",
            "reason",
            "token_count",
            "synthetic",
            "added_in",
            "evicted_in",
            "evicted_at",
            "created_at",
        ]
        read_only_fields = fields

    def get_message(self, row: Message) -> dict[str, Any]:
        return message_to_data(row.message)

    def get_state(self, row: Message) -> str:
        return "retained" if row.is_retained else "evicted"

    def get_reason(self, row: Message) -> str | None:
        return row.eviction_reason or None


def read_body(data: Any) -> list[ChatMessage]:
    """The messages of a body: one in LangChain4j's JSON, or ``{"messages": [...]}``.

    Raises:
        ValidationError: it is neither, or has too many or too long messages.
    """
    batch = isinstance(data, dict) and "messages" in data and "type" not in data
    try:
        if batch and len(data) > 1:
            extra = next(key for key in data if key != "messages")
            raise InvalidMessageError("unknown field; leave it out", extra)
        if batch and data["messages"] is None:
            raise InvalidMessageError("expected a list of messages, got null", "messages")
        messages = read_messages(data["messages"], "messages") if batch else [read_message(data)]
    except InvalidMessageError as error:
        raise serializers.ValidationError({"messages": [str(error)]}) from error
    _check_size(messages)
    return messages


def _check_size(messages: list[ChatMessage]) -> None:
    most, longest = setting("MAX_BATCH"), setting("MAX_MESSAGE_CHARS")
    if not messages:
        raise serializers.ValidationError({"messages": ["expected at least one message"]})
    if len(messages) > most:
        raise serializers.ValidationError({"messages": [f"{len(messages)} messages; at most {most} are added at once"]})
    for index, message in enumerate(messages):
        columns = to_columns(message)
        length = len(columns["text"]) + len(columns["payload"] or "")
        if length > longest:
            problem = f"messages[{index}]: has {length} characters; at most {longest} are stored"
            raise serializers.ValidationError({"messages": [problem]})


def change_to_data(change: Change) -> dict[str, Any]:
    """What an addition did."""
    conversation = change.conversation
    return {
        "added": MessageSerializer(change.added, many=True).data,
        "evicted": MessageSerializer(change.evicted, many=True).data,
        "memory": {
            "window": conversation.window,
            "limit": conversation.limit,
            "messages": conversation.retained_count,
            "tokens": conversation.retained_tokens,
        },
        "version": conversation.version,
    }


def memory_to_data(conversation: Conversation) -> dict[str, Any]:
    """What the model gets. The rows are those of the version that is named, whoever writes meanwhile."""
    fitting = fit_rows(conversation)
    return {
        "messages": [message_to_data(row.message) for row in fitting.retained],
        "tokens": fitting.tokens,
        "window": conversation.window,
        "limit": conversation.limit,
        "version": conversation.version,
    }
