"""Messages of all conversations in the admin: to search, never to edit."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.db.models.functions import Left, Length
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory import staff
from chatmemory.admin.conversations import ConversationAdmin
from chatmemory.admin.display.memory_map import grouped, short_moment
from chatmemory.admin.display.message import shown
from chatmemory.admin.display.passages import passage, with_passages
from chatmemory.admin.lists import (
    CappedList,
    MessageOwnerFilter,
    ReadOnlyAdmin,
    YesNoFilter,
    are_limited,
    conversation_admin,
    is_visible,
    said_with,
    searched,
    unquoted,
    visible_conversations,
    words,
)
from chatmemory.admin.views.staff_pages import record_list
from chatmemory.capabilities import hooks
from chatmemory.database.reading import display_titles
from chatmemory.models import PINNED, Message, MessageQuerySet, Origin

# Longer payloads hold media; the list does not read them to show what they are.
_LONGEST_READ = 10_000

_LONGEST_SAID = 160


class StateFilter(admin.SimpleListFilter):
    """A filter by whether the model still gets the message."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("retained", _("retained")),
            ("evicted", _("evicted")),
            ("uncovered", _("evicted, and in no summary")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> QuerySet[Message]:
        if self.value() == "uncovered":
            from chatmemory.database.operations.compact import UNCOVERED  # and with it all operations

            return queryset.filter(UNCOVERED)
        if self.value() not in {"retained", "evicted"}:
            return queryset
        return queryset.filter(evicted_in__isnull=self.value() == "retained")


class PinnedFilter(YesNoFilter):
    """A filter by whether the message is pinned."""

    title = _("pinned")
    parameter_name = "pinned"

    def having(self, rows: MessageQuerySet, wanted: bool) -> QuerySet[Message]:
        return rows.pinned() if wanted else rows.exclude(PINNED)


class MessageList(CappedList):
    """A list that shows, for a search, what it found in the messages, and what those are that have no text."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        wanted = searched(request)
        if self.model_admin.has_read_text_permission(request):
            names = display_titles({row.conversation_id: row.conversation for row in self.result_list}.values())
            for row in self.result_list:
                row.display_title = names.get(row.conversation_id)
                if wanted:
                    row.passage = passage(row, wanted)
        left = {row.conversation_id for row in self.result_list if not row.is_retained}
        copies = Message.objects.using(self.queryset.db).filter(
            conversation__in=left, evicted_in__isnull=True, origin=Origin.RESTORED
        )
        restored = set(copies.values_list("conversation_id", "covers_from"))
        for row in self.result_list:
            row.is_restored = (row.conversation_id, row.place) in restored
        silent = {row.pk: row for row in self.result_list if not getattr(row, "beginning", "-").strip()}
        rows = Message.objects.using(self.queryset.db).filter(pk__in=silent).annotate(length=Length("payload"))
        for pk, payload in rows.filter(length__lte=_LONGEST_READ).values_list("pk", "payload"):
            silent[pk].payload, silent[pk].text = payload, ""

    def rows(self, request: HttpRequest, keys: list[Any]) -> QuerySet[Message]:
        rows: QuerySet[Message] = super().rows(request, keys)
        # Not when they may not read them: what is at a place of a text would tell what it says.
        if not self.model_admin.has_read_text_permission(request):
            return rows
        return with_passages(rows, searched(request))


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    """The admin of messages. Each links to its place in its conversation.

    Conversation, owner and text of a message are shown only to staff who may see them in the admin of conversations.
    """

    list_display = ("place", "position", "role", "said", "owner", "tokens", "state", "reason", "time")
    list_filter = (
        MessageOwnerFilter,
        "type",
        StateFilter,
        PinnedFilter,
        "eviction_reason",
        "origin",
        "written_by",
        "created_at",
    )
    list_select_related = ("conversation__owner",)
    ordering = ("-id",)
    sortable_by = ("tokens",)
    changelist = MessageList
    actions = None
    search_help_text = _("Owner and what the messages say. Five words at most.")

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        fields = []
        if self.has_view_conversations_permission(request):
            fields.append(f"conversation__owner__{get_user_model().USERNAME_FIELD}")
        if self.has_read_text_permission(request):
            fields.append("text")
        return tuple(fields)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Message], search_term: str
    ) -> tuple[QuerySet[Message], bool]:
        wanted = words(search_term)
        if self.has_read_text_permission(request):
            record_list(request)
            # The fields of a subclass may have lookups of their own.
            if hooks("search") and self.get_search_fields(request) == MessageAdmin.get_search_fields(self, request):
                for word in map(unquoted, wanted):
                    queryset = queryset.filter(self._with_word(request, queryset.db, word))
                return queryset, False
        return super().get_search_results(request, queryset, " ".join(wanted))

    def _with_word(self, request: HttpRequest, database: str, word: str) -> Q:
        said = said_with(Message, visible_conversations(self.admin_site, request).using(database), word)
        found = Q(text__icontains=word) if said is None else said
        if self.has_view_conversations_permission(request):
            users: Any = get_user_model()._default_manager.using(database)
            owners = users.filter(**{f"{get_user_model().USERNAME_FIELD}__icontains": word})
            # Without a condition on another table, rows are found by their keys.
            if owners.exists():
                found |= Q(conversation__owner__in=owners)
        return found

    def get_list_display(self, request: HttpRequest) -> Any:
        hidden = {"position"} if self.has_view_conversations_permission(request) else {"place", "owner"}
        if not self.has_read_text_permission(request):
            hidden.add("said")
        return [column for column in self.list_display if column not in hidden]

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> Any:
        return super().get_list_display_links(request, list_display) if "place" in list_display else None

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        if not self.has_read_text_permission(request):
            found.search_help_text = gettext("Owner. Five words at most.")
        elif not self.has_view_conversations_permission(request):
            found.search_help_text = gettext("What the messages say. Five words at most.")
        return found

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        rows = super().get_queryset(request).defer("payload", "native", "conversation__metadata")
        visible = visible_conversations(self.admin_site, request)
        # Where all are visible, the subquery would only make the list slow.
        if are_limited(visible):
            rows = rows.filter(conversation__in=visible)
        rows = rows.defer("text")
        # One character more than is shown, to know whether there are more. Texts may be long, and a page has many.
        return (
            rows.annotate(beginning=Left("text", _LONGEST_SAID + 1)) if self.has_read_text_permission(request) else rows
        )

    @admin.display(description=_("conversation"))
    def place(self, row: Message) -> str:
        """Return the conversation and the position in it."""
        message = gettext("message %(position)s") % {"position": row.position}
        name = getattr(row, "display_title", None) or str(row.conversation)
        return format_html('<bdi>{}</bdi> <span class="chatmemory-position">{}</span>', name, message)

    @admin.display(description=_("owner"))
    def owner(self, row: Message) -> Any:
        """Return the owner of the conversation, as a link that filters by them."""
        return MessageOwnerFilter.link(row.conversation, getattr(row, "popup", {}))

    @admin.display(description=_("role"))
    def role(self, row: Message) -> Any:
        """Return the role that spoke."""
        return row.get_type_display()

    @admin.display(description=_("text"))
    def said(self, row: Message) -> str:
        """Return the beginning of the text; without a text, what the message is."""
        if (found := getattr(row, "passage", None)) is not None:
            return format_html('<bdi class="chatmemory-said">{}</bdi>', found)
        beginning: str = getattr(row, "beginning", "")
        if "payload" in row.__dict__:
            excerpt = shown(row).excerpt
        elif beginning.strip():
            excerpt = beginning if len(beginning) <= _LONGEST_SAID else f"{beginning[:_LONGEST_SAID]}…"
        else:
            excerpt = gettext("It is too long to show here.")
        return format_html('<bdi class="chatmemory-said">{}</bdi>', excerpt)

    @admin.display(description=_("tokens"), ordering="token_count")
    def tokens(self, row: Message) -> str:
        """Return the number of tokens."""
        return grouped(row.token_count)

    @admin.display(description=_("state"))
    def state(self, row: Message) -> Any:
        """Return "retained", "pinned", "evicted", or "restored" if a copy of it is in the memory."""
        if row.is_pinned:
            return _("pinned")
        if getattr(row, "is_restored", False) and not row.is_retained:
            return _("restored")
        return _("retained") if row.is_retained else _("evicted")

    @admin.display(description=_("reason"))
    def reason(self, row: Message) -> Any:
        """Return why it was evicted."""
        return None if row.is_retained else row.get_eviction_reason_display()

    @admin.display(description=_("time"))
    def time(self, row: Message) -> str:
        """Return when it was said."""
        return short_moment(row.created_at)

    def has_read_text_permission(self, request: HttpRequest) -> bool:
        """Return whether this member of staff may read what messages say; the site's admin of conversations decides."""
        conversations = conversation_admin(self.admin_site)
        if isinstance(conversations, ConversationAdmin):
            return conversations.has_read_text_permission(request)
        return staff.may(request.user, "read_text")

    def has_view_conversations_permission(self, request: HttpRequest) -> bool:
        """Return whether they may see the conversation of a message and its owner."""
        conversations = conversation_admin(self.admin_site)
        return conversations is not None and conversations.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Message | None = None) -> bool:
        return super().has_view_permission(request, obj) and is_visible(self.admin_site, request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Message | None = None) -> bool:
        # The admin asks this when a user or a conversation is erased together with its messages.
        return staff.may(request.user, "delete") and is_visible(self.admin_site, request, obj)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        raise PermissionDenied

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Redirect to the message's place on the timeline."""
        row = self.get_object(request, object_id)
        if row is None or not self.has_view_permission(request, row):
            return super().change_view(request, object_id, *args, **kwargs)
        conversations = conversation_admin(self.admin_site)
        if conversations is None or not conversations.has_view_permission(request, row.conversation):
            raise PermissionDenied
        address = reverse(
            "admin:chatmemory_conversation_change", args=[row.conversation_id], current_app=self.admin_site.name
        )
        return HttpResponseRedirect(f"{address}?position={row.position}#message-{row.position}")
