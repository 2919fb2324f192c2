"""Messages across conversations: to search, never to edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.conversations import ConversationAdmin, conversation_admin
from chatmemory.admin.lists import CappedList, CappedPaginator, is_refused, words
from chatmemory.models import Message

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Message]
else:
    ModelAdmin = admin.ModelAdmin

__all__ = ["MessageAdmin", "StateFilter"]

_BY_OWNER = "conversation__owner__pk__exact"


class StateFilter(admin.SimpleListFilter):
    """Whether the model still gets it."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("retained", _("retained")), ("evicted", _("evicted"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> QuerySet[Message]:
        if self.value() not in {"retained", "evicted"}:
            return queryset
        return queryset.filter(evicted_in__isnull=self.value() == "retained")


@admin.register(Message)
class MessageAdmin(ModelAdmin):
    """Each leads to its place in its conversation.

    Which conversations these are of, whose, and what was said is for those to see to whom the site shows it elsewhere.
    """

    list_display = ("place", "owner", "position", "role", "said", "token_count", "state", "created_at")
    list_filter = ("type", StateFilter, "eviction_reason", "synthetic", "created_at")
    list_select_related = ("conversation__owner",)
    ordering = ("-id",)
    sortable_by = ("token_count",)
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = None
    search_help_text = _("Owner, and for those who may read them what the messages say. Ten words at most.")

    class Media:
        css = {"all": ("chatmemory/admin.css",)}

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        fields = []
        if self._has_view_conversations_permission(request):
            fields.append(f"conversation__owner__{get_user_model().USERNAME_FIELD}")
        if self.has_read_text_permission(request):
            fields.append("text")
        return tuple(fields)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Message], search_term: str
    ) -> tuple[QuerySet[Message], bool]:
        return super().get_search_results(request, queryset, " ".join(words(search_term)))

    def get_list_display(self, request: HttpRequest) -> Any:
        hidden = {"position"} if self._has_view_conversations_permission(request) else {"place", "owner"}
        if not self.has_read_text_permission(request):
            hidden.add("said")
        return [column for column in self.list_display if column not in hidden]

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> Any:
        return super().get_list_display_links(request, list_display) if "place" in list_display else None

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CappedList]:
        return CappedList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        rows = super().get_queryset(request).defer("payload", "conversation__metadata")
        conversations = conversation_admin(self.admin_site)
        if conversations is not None:
            shown = conversations.get_queryset(request)
            # Where that is all of them, asking makes the list slow for nothing.
            if shown.query.has_filters() or shown.query.combinator:
                rows = rows.filter(conversation__in=shown)
        return rows if self.has_read_text_permission(request) else rows.defer("text")

    @admin.display(description=_("conversation"))
    def place(self, row: Message) -> str:
        """The conversation and the position in it."""
        return format_html(
            '<bdi>{}</bdi> <span class="chatmemory-position">{}</span>', str(row.conversation), str(row.position)
        )

    @admin.display(description=_("owner"))
    def owner(self, row: Message) -> Any:
        """Whose conversation it is, and a way to theirs only."""
        owner = row.conversation.owner
        if owner is None:
            return None
        return format_html('<a href="?{}"><bdi>{}</bdi></a>', urlencode({_BY_OWNER: owner.pk}), str(owner))

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        if lookup == _BY_OWNER:
            return self._has_view_conversations_permission(request)
        return not is_refused(lookup) and super().lookup_allowed(lookup, value, request)

    @admin.display(description=_("role"))
    def role(self, row: Message) -> Any:
        """Who spoke."""
        return row.get_type_display()

    @admin.display(description=_("text"))
    def said(self, row: Message) -> str:
        """How it begins."""
        return format_html('<bdi class="chatmemory-said">{}</bdi>', Truncator(row.text).chars(160))

    @admin.display(description=_("state"))
    def state(self, row: Message) -> Any:
        """Retained, or why it is not."""
        return _("retained") if row.is_retained else row.get_eviction_reason_display()

    def has_read_text_permission(self, request: HttpRequest) -> bool:
        """Whether this member of staff may read what messages say, as the site's admin of conversations has it."""
        conversations = conversation_admin(self.admin_site)
        if isinstance(conversations, ConversationAdmin):
            return conversations.has_read_text_permission(request)
        return request.user.has_perm("chatmemory.read_message_text")

    def _has_view_conversations_permission(self, request: HttpRequest) -> bool:
        conversations = conversation_admin(self.admin_site)
        return conversations is not None and conversations.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Message | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Message | None = None) -> bool:
        # The admin asks this when a user or a conversation is erased, along with which its messages go.
        return request.user.has_perm("chatmemory.delete_conversation")

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        raise PermissionDenied

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Lead to the timeline, where it stands among the others."""
        row = self.get_object(request, object_id)
        if row is None or not self.has_view_permission(request, row):
            return super().change_view(request, object_id, form_url, extra_context)
        conversations = conversation_admin(self.admin_site)
        if conversations is None or not conversations.has_view_permission(request, row.conversation):
            raise PermissionDenied
        address = reverse(
            "admin:chatmemory_conversation_change", args=[row.conversation_id], current_app=self.admin_site.name
        )
        return HttpResponseRedirect(f"{address}?position={row.position}#message-{row.position}")
