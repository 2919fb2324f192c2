"""What the app adds to the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse

from chatmemory.admin.views.staff_pages import conversation_or_404
from tests.capability.capability import thumbs_of
from tests.capability.models import Thumb


def thumbs_page(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    conversation = conversation_or_404(model_admin, request, object_id)
    return HttpResponse(", ".join(map(str, thumbs_of(conversation).order_by("position"))))


class DislikedFilter(admin.SimpleListFilter):
    title = "disliked"
    parameter_name = "disliked"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("yes", "Yes")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        down = Thumb.objects.filter(conversation=OuterRef("pk"), up=False)
        return queryset.filter(Exists(down)) if self.value() == "yes" else queryset
