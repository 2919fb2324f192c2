"""Conversations in the admin: to read, to act on and to erase, never to edit by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.db import connections, transaction
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
    Window,
)
from django.db.models.functions import RowNumber
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.module_loading import import_string
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from chatmemory import staff
from chatmemory.admin.display.memory_map import Gauge, grouped, short_moment
from chatmemory.admin.display.passages import beginning, marked, passage, with_passages
from chatmemory.admin.lists import (
    MOST_SORTED,
    CappedList,
    FullnessFilter,
    HasEvictedFilter,
    OwnerFilter,
    is_visible,
    said_with,
    searched,
    unquoted,
    words,
)
from chatmemory.admin.views.selection import (
    Erasing,
    clear_memories,
    delete_selected,
    export_selected,
    in_format,
    json_lines,
)
from chatmemory.admin.views.staff_pages import record_list
from chatmemory.capabilities import filled
from chatmemory.database.reading import WORDS_READ, display_titles, last_words
from chatmemory.formats.registry import known_names
from chatmemory.models import Conversation, Message

_MOST_SHOWN = 2


def _view(name: str) -> Callable[..., Any]:
    """Return a view of ``chatmemory.admin.views``, imported at its first request: each process imports the admin."""

    def view(*args: Any, **kwargs: Any) -> Any:
        return import_string(f"chatmemory.admin.views.{name}")(*args, **kwargs)

    return view


@dataclass(frozen=True, kw_only=True)
class Found:
    """The messages of one conversation that have a word of the search."""

    count: int

    messages: list[Message]
    """Some of them, each with its ``passage``: of those with most of the words, the newest."""

    @property
    def words(self) -> str:
        """Their number in words."""
        words = ngettext("%(count)s message matches", "%(count)s messages match", self.count)
        return words % {"count": grouped(self.count)}


def found_in(conversations: Sequence[Conversation], wanted: Sequence[str], database: str) -> dict[Any, Found]:
    """Return what was found in conversations, by their primary keys; those without a match are missing.

    Args:
        conversations: those of a page.
        wanted: the words that were searched for.
        database: the alias of their database.
    """
    rows = Conversation.objects.using(database).filter(pk__in=[conversation.pk for conversation in conversations])
    said: list[Any] = [said_with(Message, rows, word) or Q(text__icontains=word) for word in wanted]
    words = sum((Case(When(word, then=1), default=0, output_field=IntegerField()) for word in said), start=Value(0))
    among = Message.objects.using(database).filter(Q.create(said, connector=Q.OR), conversation__in=conversations)
    ranked = among.annotate(
        words=words,
        count=Window(Count("pk"), partition_by=F("conversation")),
        rank=Window(RowNumber(), partition_by=F("conversation"), order_by=[F("words").desc(), F("position").desc()]),
    ).filter(rank__lte=_MOST_SHOWN)
    hits = sorted(ranked.values_list("rank", "pk", "count"))
    best: Any = with_passages(Message.objects.using(database), wanted).in_bulk([key for _rank, key, _count in hits])
    found: dict[Any, Found] = {}
    for _rank, key, count in hits:
        if (row := best.get(key)) is None:
            continue  # it was erased meanwhile
        row.passage = passage(row, wanted) or beginning(row)
        found.setdefault(row.conversation_id, Found(count=count, messages=[])).messages.append(row)
    return found


class ConversationList(CappedList):
    """A list that shows the last words of each conversation; for a search, the messages that it found."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        wanted = searched(request)
        needed = (self.model_admin.has_view_permission, self.model_admin.has_read_text_permission)
        for conversation in self.result_list:
            conversation.searched = wanted
        if not self.model_admin.has_read_text_permission(request):
            return
        # A project may decide for each conversation who sees it.
        shown = [each for each in self.result_list if all(may(request, each) for may in needed)]
        names, last = display_titles(shown), last_words(shown)
        for conversation in shown:
            conversation.display_title = names.get(conversation.pk)
            conversation.last_words = last.get(conversation.pk)
        if wanted:
            found = found_in(self.result_list, wanted, self.queryset.db)
            for conversation in self.result_list:
                conversation.found = found.get(conversation.pk)


@admin.register(Conversation)
class ConversationAdmin(Erasing):
    """The admin of conversations. Nobody edits here: messages are a record, and the counters follow from them."""

    list_display = ("name", "last_said", "owner_link", "window_gauge", "retained", "evicted", "last_activity")
    list_filter = (OwnerFilter, "window", FullnessFilter, HasEvictedFilter, "updated_at")
    list_select_related = ("owner",)
    ordering = ("-updated_at",)
    changelist = ConversationList
    actions = (clear_memories, export_selected, delete_selected)
    search_help_text = _("Title, memory ID, owner and what the messages say. Five words at most.")

    def get_list_filter(self, request: HttpRequest) -> Any:
        return [*super().get_list_filter(request), *filled("admin_filters")]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return ("title", "memory_id", f"owner__{get_user_model().USERNAME_FIELD}")

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = [*super().get_list_display(request), *filled("admin_columns")]
        if not self.has_read_text_permission(request):
            return [name for name in columns if name != "last_said"]
        # What was found has the place of the last words, so that a search moves no other column.
        return ["found" if name == "last_said" and searched(request) else name for name in columns]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Conversation], search_term: str
    ) -> tuple[QuerySet[Conversation], bool]:
        wanted = words(search_term)
        if not self.has_read_text_permission(request):
            return super().get_search_results(request, queryset, " ".join(wanted))
        if wanted:
            record_list(request)
        # The longest word is mostly the rarest. If one word has no match, databases need not search for the others.
        for word in sorted(wanted, key=len, reverse=True):
            said = said_with(Conversation, queryset, unquoted(word))
            if said is None:
                rows = Message.objects.filter(conversation=OuterRef("pk"), text__icontains=unquoted(word))
                said = Q(Exists(rows))
            queryset = queryset.filter(self._in_fields(request, queryset.db, word) | said)
        return queryset, False

    def _in_fields(self, request: HttpRequest, database: str, word: str) -> Q:
        fields = self.get_search_fields(request)
        if fields == ConversationAdmin.get_search_fields(self, request):
            return Q.create([(f"{field}__icontains", unquoted(word)) for field in fields], connector=Q.OR)
        # The fields of a subclass may have lookups of their own, or many values for one conversation.
        found, _may_have_duplicates = super().get_search_results(request, Conversation.objects.using(database), word)
        return Q(pk__in=found.values("pk"))

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        # Links have those of owners, also where a subclass has other filters.
        return lookup == OwnerFilter.parameter_name or super().lookup_allowed(lookup, value, request)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        if not self.has_read_text_permission(request):
            found.search_help_text = gettext("Title, memory ID and owner. Five words at most.")
        return found

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        rows: QuerySet[Conversation] = staff.reachable(request.user, super().get_queryset(request)).defer("metadata")
        return rows.annotate(is_visible=Value(True))  # permissions need not ask again

    def get_urls(self) -> list[URLPattern]:
        def at(address: str, view: Any, name: str) -> URLPattern:
            def bound(request: HttpRequest, object_id: str) -> Any:
                try:
                    return view(self, request, object_id)
                except Conversation.DoesNotExist as error:  # it was erased meanwhile
                    raise Http404 from error

            # A view may say that it runs in no transaction.
            return path(
                f"<path:object_id>/{address}/",
                self.admin_site.admin_view(update_wrapper(bound, view, assigned=())),
                name=f"chatmemory_{name}",
            )

        compact = _view("changes.compact")
        for alias in connections:  # ATOMIC_REQUESTS opens no transaction: a model may take a minute
            compact = transaction.non_atomic_requests(using=alias)(compact)
        return [
            at("memory", _view("conversation_page.show_past_memory"), "conversation_memory"),
            at("window", _view("window.show"), "conversation_window"),
            at("clear", _view("changes.clear_memory"), "conversation_clear"),
            at("clear-tool-results", _view("changes.clear_tool_results"), "conversation_clear_tool_results"),
            at("compact", compact, "conversation_compact"),
            at("pin", partial(_view("changes.change_pin"), to="pin"), "conversation_pin"),
            at("unpin", partial(_view("changes.change_pin"), to="unpin"), "conversation_unpin"),
            at("export/jsonl", json_lines, "conversation_export_jsonl"),
            *(
                at(f"export/{name}", partial(in_format, name=name), f"conversation_export_{name}")
                for name in known_names()
            ),
            *(at(page.name, page.view, f"conversation_{page.name}") for page in filled("admin_pages")),
            *super().get_urls(),
        ]

    @admin.display(description=_("conversation"), ordering="title")
    def name(self, conversation: Conversation) -> str:
        """Return the title, or the first words, and the memory ID; the latter alone where there are neither."""
        wanted = getattr(conversation, "searched", [])
        memory_id = marked(conversation.memory_id, wanted)
        title = conversation.title or getattr(conversation, "display_title", None)
        if not title:
            return format_html("<bdi>{}</bdi>", memory_id)
        return format_html(
            '<bdi>{}</bdi><span class="chatmemory-memory-id"><bdi>{}</bdi></span>', marked(title, wanted), memory_id
        )

    @admin.display(description=_("last words"))
    def last_said(self, conversation: Conversation) -> str:
        """Return the last words of the user or the model."""
        words = getattr(conversation, "last_words", None) or ""
        end = "…" if len(words) == WORDS_READ else ""
        return format_html('<bdi class="chatmemory-said">{}{}</bdi>', " ".join(words.split()), end)

    @admin.display(description=_("found"))
    def found(self, conversation: Conversation) -> Any:
        """Return how many messages a search found, and links to some of them."""
        found: Found | None = getattr(conversation, "found", None)
        if found is None:
            return None
        name = "admin:chatmemory_conversation_change"
        address = reverse(name, args=[conversation.pk], current_app=self.admin_site.name)
        return render_to_string("admin/chatmemory/conversation/found.html", {"found": found, "address": address})

    @admin.display(description=_("owner"), ordering="owner")
    def owner_link(self, conversation: Conversation) -> str:
        """Return the owner, as a link that filters by them."""
        return OwnerFilter.link(conversation, getattr(conversation, "popup", {}))

    @admin.display(description=_("window"))
    def window_gauge(self, conversation: Conversation) -> str:
        """Return a bar that shows how full the window is."""
        gauge = Gauge.of(conversation)
        return render_to_string("admin/chatmemory/conversation/gauge.html", {"gauge": gauge, "is_small": True})

    @admin.display(description=_("retained"), ordering="retained_count")
    def retained(self, conversation: Conversation) -> str:
        """Return the number of messages that the model gets now."""
        return grouped(conversation.retained_count)

    @admin.display(description=_("evicted"), ordering=F("next_position") - F("retained_count"))
    def evicted(self, conversation: Conversation) -> str:
        """Return the number of messages that the model no longer gets."""
        return grouped(conversation.evicted_count)

    @admin.display(description=_("last activity"), ordering="updated_at")
    def last_activity(self, conversation: Conversation) -> str:
        """Return when the conversation last changed."""
        return short_moment(conversation.updated_at)

    def get_sortable_by(self, request: HttpRequest) -> Any:
        columns = super().get_sortable_by(request)
        # What is in no index would be read of all conversations; a filter finds the same sooner.
        if self.get_queryset(request).order_by()[: MOST_SORTED + 1].count() > MOST_SORTED:
            return [column for column in columns if column in {"retained", "last_activity"}]
        return columns

    def has_view_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        return self._may(request, "view", obj)

    def has_delete_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        return self._may(request, "delete", obj)

    def has_act_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        """Return whether this member of staff may change the window, pin messages and clear the memory.

        Without a conversation: whether they may for any conversation, as with the admin's own permissions.
        """
        return self._may(request, "change", obj)

    def has_compact_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        """Return whether they may have the project's function summarise older turns, which may cost money."""
        return self._may(request, "compact", obj)

    def has_read_text_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        """Return whether they may read what messages say; otherwise they see shapes, tokens and reasons.

        Without a conversation: whether lists may show and search texts. Which conversations these are of is up to
        ``get_queryset``.
        """
        return self._may(request, "read_text", obj)

    def _may(self, request: HttpRequest, act: staff.Act, conversation: Conversation | None) -> bool:
        return staff.may(request.user, act) and is_visible(self.admin_site, request, conversation)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        staff.record(request.user, message, [obj])

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        staff.record(request.user, "", queryset, act="delete")

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().changelist_view(request, *args, **kwargs)
        # What answers to an action has no list. A search is recorded before it is run.
        shown = (getattr(response, "context_data", None) or {}).get("cl")
        if shown and shown.result_list and not searched(request) and self.has_read_text_permission(request):
            record_list(request)
        return response

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        from chatmemory.admin.views import conversation_page

        if (elsewhere := conversation_page.redirect(self, request, object_id)) is not None:
            return elsewhere
        return super().change_view(request, object_id, *args, **kwargs)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        from chatmemory.admin.views import conversation_page

        if (conversation := kwargs.get("obj")) is not None:
            context.update(conversation_page.context(self, request, conversation))
        return super().render_change_form(request, context, *args, **kwargs)
