"""The admin of token calibrations: by how much the counts of each model's tokens err."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.translation import gettext_lazy as _

from chatmemory.conf import setting
from chatmemory.models import TokenCalibration


@admin.register(TokenCalibration)
class TokenCalibrationAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A read-only list. The admin's index shows it only with the setting ``CALIBRATE_TOKENS``."""

    list_display = ("model", "error", "calls", "updated_at")
    list_display_links = None
    sortable_by = ("model", "calls", "updated_at")
    actions = None

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(setting("CALIBRATE_TOKENS")) and super().has_module_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description=_("reported beside estimated"))
    def error(self, row: TokenCalibration) -> str:
        percent = round((row.ratio - 1) * 100, 1)
        return f"{'+' if percent >= 0 else '−'}{number_format(abs(percent), 1)} %"
