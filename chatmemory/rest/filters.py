"""Filters of the lists."""

from __future__ import annotations

from django_filters import rest_framework as filters

from chatmemory.managers import MessageQuerySet
from chatmemory.models import EVICTION_REASONS, TYPES, WINDOWS, Conversation, Message

__all__ = ["ConversationFilter", "MessageFilter"]


class ConversationFilter(filters.FilterSet):
    """``?memory_id=``, ``?window=``, ``?title=`` (a part of it)."""

    memory_id = filters.CharFilter()
    window = filters.ChoiceFilter(choices=WINDOWS)
    title = filters.CharFilter(lookup_expr="icontains")

    class Meta:
        model = Conversation
        fields: list[str] = []


class MessageFilter(filters.FilterSet):
    """``?state=``, ``?type=``, ``?reason=``."""

    state = filters.ChoiceFilter(choices=[("retained", "retained"), ("evicted", "evicted")], method="filter_state")
    type = filters.ChoiceFilter(choices=TYPES)
    reason = filters.ChoiceFilter(choices=EVICTION_REASONS, field_name="eviction_reason")

    class Meta:
        model = Message
        fields: list[str] = []

    def filter_state(self, queryset: MessageQuerySet, name: str, value: str) -> MessageQuerySet:
        return queryset.filter(evicted_in__isnull=value == "retained")
