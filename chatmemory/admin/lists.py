"""Filters and pages of the list of conversations, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.gauge import used_in_window
from chatmemory.models import Conversation

if TYPE_CHECKING:
    Pages = Paginator[Conversation]
else:
    Pages = Paginator

__all__ = ["CappedPaginator", "FullnessFilter", "HasEvictedFilter"]

_MOST_COUNTED = 10_000


class CappedPaginator(Pages):
    """Counts no further than anybody turns pages."""

    @cached_property
    def count(self) -> int:
        found: Any = self.object_list
        return int(found.order_by()[:_MOST_COUNTED].count())


class FullnessFilter(admin.SimpleListFilter):
    """How full the window is."""

    title = _("fullness")
    parameter_name = "fullness"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("empty", _("empty")),
            ("low", _("less than half")),
            ("high", _("half or more")),
            ("full", _("nine tenths or more")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Conversation]) -> QuerySet[Conversation]:
        if self.value() is None:
            return queryset
        conditions = {
            "empty": Q(used=0),
            "low": Q(used__gt=0, used__lt=F("limit") / 2.0),
            "high": Q(used__gte=F("limit") / 2.0),
            "full": Q(used__gte=F("limit") * 0.9),
        }
        return queryset.alias(used=used_in_window()).filter(conditions.get(self.value() or "", Q()))


class HasEvictedFilter(admin.SimpleListFilter):
    """Whether anything has left the memory."""

    title = _("has evicted messages")
    parameter_name = "evicted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Yes")), ("no", _("No"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Conversation]) -> QuerySet[Conversation]:
        evicted = Q(next_position__gt=F("retained_count"))
        match self.value():
            case "yes":
                return queryset.filter(evicted)
            case "no":
                return queryset.exclude(evicted)
        return queryset
