"""The body of a request to clear old tool results."""

from __future__ import annotations

from rest_framework import serializers

from chatmemory.core.entries import RESULT_CLEARED, RESULTS_KEPT
from chatmemory.models import MAX_LIMIT
from chatmemory.rest.strict import StrictSerializer

__all__ = ["ToolClearingSerializer"]

_MOST_TOOLS = 100

_LONGEST_PLACEHOLDER = 200


class ToolClearingSerializer(StrictSerializer):
    """The tool results that stay, and the text that takes the place of the others."""

    keep = serializers.IntegerField(
        default=RESULTS_KEPT,
        min_value=0,
        max_value=MAX_LIMIT,
        help_text="How many tool results, counted from the end of the memory, stay.",
    )
    exclude_tools = serializers.ListField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False),
        default=list,
        max_length=_MOST_TOOLS,
        help_text="The names of tools whose results stay.",
    )
    placeholder = serializers.CharField(
        default=RESULT_CLEARED,
        max_length=_LONGEST_PLACEHOLDER,
        help_text="The text of the placeholders; spaces around it are taken off.",
    )
