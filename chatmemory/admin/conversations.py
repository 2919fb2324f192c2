"""Conversations in the admin: to read and to erase, never to edit by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from chatmemory.admin.gauge import Gauge
from chatmemory.admin.timeline import evicted_messages, retained_messages
from chatmemory.models import Conversation, Message

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Conversation]
else:
    ModelAdmin = admin.ModelAdmin

__all__ = ["ConversationAdmin"]

_LISTED_BEFORE_DELETION = 20


@admin.register(Conversation)
class ConversationAdmin(ModelAdmin):
    """Editing stays with the application: its messages are a record, and the counters follow from them."""

    list_display = ("name", "owner", "window_gauge", "retained", "evicted", "updated_at")
    list_filter = ("window", "updated_at")
    list_select_related = ("owner",)
    ordering = ("-updated_at",)
    show_full_result_count = False

    class Media:
        css = {"all": ("chatmemory/admin.css",)}

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return ("title", "memory_id", f"owner__{get_user_model().USERNAME_FIELD}")

    @admin.display(description=_("conversation"), ordering="title")
    def name(self, conversation: Conversation) -> str:
        """The title and the memory ID; the latter alone where there is no title."""
        if not conversation.title:
            return str(conversation)
        return format_html(
            '<bdi>{}</bdi><span class="chatmemory-memory-id"><bdi>{}</bdi></span>',
            conversation.title,
            conversation.memory_id,
        )

    @admin.display(description=_("window"))
    def window_gauge(self, conversation: Conversation) -> str:
        """How full the window is."""
        gauge = Gauge.of(conversation)
        return render_to_string("admin/chatmemory/conversation/gauge.html", {"gauge": gauge, "is_small": True})

    @admin.display(description=_("retained"), ordering="retained_count")
    def retained(self, conversation: Conversation) -> int:
        """How many messages the model gets now."""
        return conversation.retained_count

    @admin.display(description=_("evicted"), ordering=F("next_position") - F("retained_count"))
    def evicted(self, conversation: Conversation) -> int:
        """How many messages it no longer gets."""
        return conversation.evicted_count

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        return False

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, Any], set[Any], list[Any]]:
        """What goes along. Messages go with their conversation: nobody can have a permission to delete them alone."""
        to_delete, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        perms_needed.discard(Message._meta.verbose_name)
        return (
            [_shortened(item) if isinstance(item, list) else item for item in to_delete],
            counts,
            perms_needed,
            protected,
        )

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Conversation | None = None,
    ) -> HttpResponse:
        if obj is not None:
            context["gauge"] = Gauge.of(obj)
            context["retained"] = retained_messages(obj, request.GET)
            context["evicted"] = evicted_messages(obj, request.GET)
        return super().render_change_form(request, context, add, change, form_url, obj)


def _shortened(items: list[Any]) -> list[Any]:
    """A few of many, for a confirmation that lists thousands of messages asks nothing any more."""
    more = len(items) - _LISTED_BEFORE_DELETION
    if more <= 0:
        return items
    rest = ngettext("… and %(count)d more", "… and %(count)d more", more) % {"count": more}
    return [*items[:_LISTED_BEFORE_DELETION], rest]
