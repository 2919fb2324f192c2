"""What a call used, at each answer over REST."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from chatmemory.capabilities import MessageField
from chatmemory.contrib.usage.models import Usage, rows_of
from chatmemory.core.usage import TOKENS
from chatmemory.models import Conversation


class MessageUsageSerializer(serializers.ModelSerializer[Usage]):
    """What the call of the model used. A count is null if the model's server did not report it."""

    class Meta:
        model = Usage
        fields = ["model", *TOKENS, "seconds"]
        read_only_fields = fields


def message_field() -> MessageField:
    """Return the field with what the call used whose answer the message is."""
    help_text = "What the call of the model used whose answer this is, if it is known. Only where messages are read."
    return MessageField(
        name="usage",
        schema=MessageUsageSerializer(read_only=True, allow_null=True, help_text=help_text),
        values=_values,
    )


def _values(request: Request, conversation: Conversation, positions: Collection[int]) -> dict[int, Any]:
    serializer = MessageUsageSerializer()
    rows = rows_of(conversation).filter(position__in=positions)
    return {row.position: serializer.to_representation(row) for row in rows if row.position is not None}
