"""What the app adds to the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse

from chatmemory.admin.views.staff_pages import conversation_or_404
from tests.capability.capability import reviews_of
from tests.capability.models import Review


def reviews_page(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    conversation = conversation_or_404(model_admin, request, object_id)
    return HttpResponse(", ".join(map(str, reviews_of(conversation).order_by("position"))))


class WrongFilter(admin.SimpleListFilter):
    title = "wrong"
    parameter_name = "wrong"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("yes", "Yes")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        wrong = Review.objects.filter(conversation=OuterRef("pk"), correct=False)
        return queryset.filter(Exists(wrong)) if self.value() == "yes" else queryset
