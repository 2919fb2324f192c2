"""Usage over REST: at each answer, the calls of a conversation, and the sums of an owner's calls."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet
from django.urls import path
from django.utils import timezone
from django_filters import rest_framework as filters
from rest_framework import ISO_8601, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.capabilities import MessageField
from chatmemory.contrib.usage.models import LONGEST_NAME, Operation, Status, Usage, day_of, rows_of
from chatmemory.contrib.usage.sums import Sums, sums, total
from chatmemory.core.usage import TOKENS
from chatmemory.formats.schemas import Schema, or_null, text
from chatmemory.models import Conversation
from chatmemory.rest.access import is_for_others, reachable_rows, signed_in_user
from chatmemory.rest.filters import ConversationPagination, StrictOrderingFilter
from chatmemory.rest.problems import invalid
from chatmemory.rest.serializers import OwnerField, PageSerializer, TokensField
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call

MOST_GROUPS = 1000
"""The maximum number of groups in an answer."""

_DAYS = 30
"""The number of days that are added up by default."""

_AMOUNT = text(pattern=r"^[0-9]+([.][0-9]+)?$")


class _CostField(serializers.ReadOnlyField):
    """An amount as a string: JavaScript's numbers are not exact."""

    def to_representation(self, value: Decimal) -> str:
        return _amount(value)

    def openapi(self) -> Schema:
        return or_null(_AMOUNT)


class _CostsField(serializers.ReadOnlyField):
    def to_representation(self, value: dict[str, Decimal]) -> dict[str, str] | None:
        return {currency: _amount(cost) for currency, cost in sorted(value.items())} or None

    def openapi(self) -> Schema:
        return or_null({"type": "object", "additionalProperties": _AMOUNT})


class _KeyField(serializers.ReadOnlyField):
    def openapi(self) -> Schema:
        return {"type": ["integer", "string", "null"]}


def _amount(cost: Decimal) -> str:
    return f"{cost.normalize():f}"


class MessageUsageSerializer(serializers.ModelSerializer[Usage]):
    """What the call of the model used. A count is null if the model's server did not report it."""

    cost = _CostField(help_text="Null if a price is not known.")

    class Meta:
        model = Usage
        fields = ["model", *TOKENS, "seconds", "cost", "currency"]
        read_only_fields = fields


class UsageRowSerializer(serializers.ModelSerializer[Usage]):
    """A call of a model. A count is null if the model's server did not report it."""

    sometimes = ("owner", "provider")

    owner = OwnerField(
        source="owner_id",
        help_text="The primary key of the conversation's owner at the time of the call. Only with `?owner=`.",
    )
    cost = _CostField(help_text="Null if a price is not known.")

    class Meta:
        model = Usage
        fields = [
            *("id", "owner", "position", "model", "provider", "operation", "status", *TOKENS, "tier", "details"),
            *("first_delta_seconds", "seconds", "cost", "currency", "created_at"),
        ]
        read_only_fields = fields
        extra_kwargs = {
            "provider": {"help_text": "The provider, or the host of another server. Only with `?owner=`."},
        }

    def to_representation(self, instance: Usage) -> dict[str, Any]:
        data = super().to_representation(instance)
        if not self.context.get("with_owner"):
            for name in self.sometimes:
                del data[name]
        return data


class UsageSumsSerializer(serializers.Serializer[Sums]):
    """The sums of calls. What no call reported is null."""

    calls = TokensField(help_text="The number of calls.")
    input_tokens = TokensField(allow_null=True)
    output_tokens = TokensField(allow_null=True)
    cache_read_tokens = TokensField(allow_null=True)
    cache_write_tokens = TokensField(allow_null=True)
    reasoning_tokens = TokensField(allow_null=True)
    cached_share = serializers.FloatField(
        allow_null=True,
        min_value=0,
        max_value=1,
        help_text="The share of the input that was read from a cache; null if no input was reported.",
    )
    costs = _CostsField(help_text="The sum of the known costs in each currency; null if no cost is known.")
    unpriced = TokensField(help_text="The number of calls whose cost is not known.")


class UsageGroupSerializer(UsageSumsSerializer):
    """The sums of the calls of a group. What no call reported is null."""

    key = _KeyField(
        help_text="The day; the name of the model, empty if it is not known; the operation; or the owner's primary "
        "key, null for calls without an owner."
    )


class UsagePageSerializer(PageSerializer):
    """One page."""

    results = UsageRowSerializer(many=True)
    total = UsageSumsSerializer(help_text="The sums of the calls on all pages.")


class UsageReportSerializer(serializers.Serializer[Any]):
    """Sums by group, and of all calls."""

    results = UsageGroupSerializer(
        many=True,
        help_text=f"The latest day first, or the group with most tokens. At most {MOST_GROUPS} groups.",
    )
    total = UsageSumsSerializer(help_text="The sums of the calls of all groups.")

    def get_fields(self) -> dict[str, Any]:
        # "from" is no name of an attribute.
        days = {
            "from": serializers.DateField(help_text="The first day that is added up."),
            "to": serializers.DateField(help_text="The last day that is added up."),
        }
        return {**days, **super().get_fields()}


class UsageFilter(filters.FilterSet):
    """The filters of the calls of a conversation."""

    operation = filters.ChoiceFilter(
        choices=[(value, value) for value in Operation.values], help_text="What the model was called for."
    )
    status = filters.ChoiceFilter(choices=[(value, value) for value in Status.values], help_text="How the call ended.")
    model = filters.CharFilter(max_length=LONGEST_NAME, strip=False, help_text="Exactly this name of a model.")


class UsagePagination(ConversationPagination):
    """The newest first."""

    ordering = ("-created_at", "-id")


_PARAMETERS = {
    "group": serializers.ChoiceField(
        ["day", "model", "operation", "owner"], default="day", help_text="What the calls of a group have in common."
    ),
    "from": serializers.DateField(
        default=None,
        input_formats=[ISO_8601],
        help_text=f"The first day, in the time zone of the project. By default, {_DAYS} days are added up.",
    ),
    "to": serializers.DateField(default=None, input_formats=[ISO_8601], help_text="The last day, by default today."),
    "model": serializers.CharField(
        default="",
        allow_blank=True,
        max_length=LONGEST_NAME,
        trim_whitespace=False,
        help_text="Only calls of the model with exactly this name.",
    ),
    "operation": serializers.ChoiceField(Operation.values, default=None, help_text="Only calls for this."),
    "conversation": serializers.UUIDField(
        default=None, help_text="Only calls of the conversation with this `id`, which may have been erased."
    ),
}


class UsageViewSet(ChatMemoryViewSet):
    """What the calls of models used and cost."""

    tag = "usage"
    serializer_class = UsageRowSerializer
    pagination_class = UsagePagination
    filter_backends = [filters.DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = UsageFilter
    ordering_fields = ["created_at"]
    ordering = ["-created_at", "-id"]

    @call("listUsage", ("view",), users=True, answer=UsagePageSerializer)
    def list(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """List the calls of models in a conversation.

        In pages, the newest first, with their total: what the conversation cost. Without those of an earlier owner.
        """
        rows = self.filter_queryset(_rows_for(request, self.conversation()))
        page = self.paginate_queryset(rows) or []
        answer = self.get_paginated_response(self.get_serializer(page, many=True).data)
        answer.data["total"] = UsageSumsSerializer(total(rows)).data
        return answer

    @call("sumUsage", ("view",), users=True, answer=UsageReportSerializer, parameters=_PARAMETERS)
    def sum_up(self, request: Request, **kwargs: Any) -> Response:
        """Add up your usage.

        By day, model, operation or owner. Calls in conversations that were erased since are included.
        """
        asked = {name: self.parameter(name) for name in _PARAMETERS}
        first, last = _period(asked["from"], asked["to"])
        rows = reachable_rows(request, Usage.objects.all(), *self.call.permission, conversation="conversation")
        names = ("model", "operation", "conversation")
        filtered = {name: asked[name] for name in names if asked[name]}
        groups = sums(rows.filter(day__range=(first, last), **filtered), asked["group"])
        # Not a statement of its own: it would take as long again, and might find other calls.
        told = {"from": first, "to": last, "results": groups[:MOST_GROUPS], "total": sum(groups, Sums())}
        return Response(UsageReportSerializer(told).data)


def _period(first: date | None, last: date | None) -> tuple[date, date]:
    last = last or day_of(timezone.now())
    if first is None:
        first = last - min(timedelta(days=_DAYS - 1), last - date.min)
    if first > last:
        raise invalid("from", "expected a day up to %(to)s, got %(got)s", to=last.isoformat(), got=first.isoformat())
    return first, last


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
    # Other code may record what else was called for an answer.
    rows = _rows_for(request, conversation).filter(position__in=positions, operation=Operation.CHAT)
    rows = rows.order_by("created_at")
    return {row.position: serializer.to_representation(row) for row in rows if row.position is not None}


def _rows_for(request: Request, conversation: Conversation) -> QuerySet[Usage]:
    """Return the calls in a conversation that a request may show: users see their own, staff all."""
    rows = rows_of(conversation)
    return rows if is_for_others(request) else rows.filter(owner=signed_in_user(request))


routes = [
    path("usage/", UsageViewSet.as_view({"get": "sum_up"}), name="usage"),
    path(
        "conversations/<str:conversation_id>/usage/",
        UsageViewSet.as_view({"get": "list"}),
        name="conversation-usage",
    ),
]
