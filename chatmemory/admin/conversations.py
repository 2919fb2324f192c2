"""Conversations in the admin: to read, to act on and to erase, never to edit by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Exists, F, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from chatmemory.admin import acts, export, past, what_if
from chatmemory.admin.access import may_act, may_read_text
from chatmemory.admin.gauge import Gauge
from chatmemory.admin.lists import CappedPaginator, FullnessFilter, HasEvictedFilter
from chatmemory.admin.strip import Strip
from chatmemory.admin.timeline import Timeline
from chatmemory.admin.tools import conversation_tools
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
    list_filter = ("window", FullnessFilter, HasEvictedFilter, "updated_at")
    list_select_related = ("owner",)
    ordering = ("-updated_at",)
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = (acts.clear_memories, export.export_selected)
    search_help_text = _("Title, memory ID, owner, and for those who may read them what the messages say.")

    class Media:
        css = {"all": ("chatmemory/admin.css",)}

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return ("title", "memory_id", f"owner__{get_user_model().USERNAME_FIELD}")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Conversation], search_term: str
    ) -> tuple[QuerySet[Conversation], bool]:
        found, may_have_duplicates = super().get_search_results(request, queryset, search_term)
        if search_term and may_read_text(request):
            said = Message.objects.filter(conversation=OuterRef("pk"), text__icontains=search_term)
            found = found | queryset.filter(Exists(said))
        return found, may_have_duplicates

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        return super().get_queryset(request).defer("metadata")

    def get_urls(self) -> list[URLPattern]:
        def at(address: str, view: Any, name: str) -> URLPattern:
            def bound(request: HttpRequest, object_id: str) -> Any:
                return view(self, request, object_id)

            return path(f"<path:object_id>/{address}/", self.admin_site.admin_view(bound), name=f"chatmemory_{name}")

        return [
            at("memory", past.show, "conversation_memory"),
            at("what-if", what_if.show, "conversation_what_if"),
            at("window", acts.change_window, "conversation_window"),
            at("clear", acts.clear_memory, "conversation_clear"),
            at("export/jsonl", export.json_lines, "conversation_export_jsonl"),
            at("export/openai", export.openai, "conversation_export_openai"),
            at("export/langchain4j", export.langchain4j, "conversation_export_langchain4j"),
            *super().get_urls(),
        ]

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

    def has_view_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        return super().has_view_permission(request, obj) or may_act(request)

    def has_act_permission(self, request: HttpRequest) -> bool:
        """For actions on several conversations."""
        return may_act(request)

    def has_read_text_permission(self, request: HttpRequest) -> bool:
        """For actions that give out what messages say."""
        return may_read_text(request)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, Any], set[Any], list[Any]]:
        """What goes along, a few of many."""
        to_delete, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        few = [_shortened(item) if isinstance(item, list) else item for item in to_delete]
        return few, counts, perms_needed, protected

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: int) -> HttpResponse:
        super().response_delete(request, obj_display, obj_id)  # says so, but leads away, for nobody may change one
        return HttpResponseRedirect(
            reverse("admin:chatmemory_conversation_changelist", current_app=self.admin_site.name)
        )

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        conversation = self.get_object(request, object_id)
        if conversation is not None and request.GET.get("go") == "first-evicted":
            first = conversation.messages.evicted().values_list("position", flat=True).first()
            return HttpResponseRedirect(f"{request.path}?position={first or 0}#message-{first or 0}")
        return super().change_view(request, object_id, form_url, extra_context)

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
            timeline = Timeline.read(obj, request.GET, with_text=may_read_text(request))
            context["gauge"] = Gauge.of(obj)
            context["timeline"] = timeline
            context["strip"] = Strip.read(obj, timeline.start, timeline.edge)
            context["tools"] = conversation_tools(self, request, obj)
        return super().render_change_form(request, context, add, change, form_url, obj)


def _shortened(items: list[Any]) -> list[Any]:
    """A few of many, for a confirmation that lists thousands of messages asks nothing any more."""
    more = len(items) - _LISTED_BEFORE_DELETION
    if more <= 0:
        return items
    rest = ngettext("… and %(count)d more", "… and %(count)d more", more) % {"count": more}
    return [*items[:_LISTED_BEFORE_DELETION], rest]
