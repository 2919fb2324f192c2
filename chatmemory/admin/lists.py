"""Pages, searches and filters of the lists, bounded however many rows there are, and what their admins share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.admin.options import IS_POPUP_VAR, TO_FIELD_VAR, IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import F, Model, Q, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.forms.widgets import Script
from django.http import HttpRequest, QueryDict
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.text import smart_split, unescape_string_literal
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory import staff
from chatmemory.admin.display.memory_map import grouped, used_in_window
from chatmemory.capabilities import first
from chatmemory.core.json_text import with_replacements
from chatmemory.models import LONGEST_SEARCH, Conversation, ConversationQuerySet

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    Pages = Paginator[Conversation]
else:
    ModelAdmin = admin.ModelAdmin
    Pages = Paginator

_DRAWN = (
    "stock",
    "page",
    "conversation",
    "tools",
    "gauge",
    "lists",
    "messages",
    "markdown",
    "rows",
    "summaries",
    "strip",
    "forms",
    "window",
    "past",
    "dashboard",
)

STYLES: dict[str, Sequence[str]] = {
    "all": [
        "chatmemory/roles.css",
        "chatmemory/chat/markdown.css",
        *(f"chatmemory/admin/{name}.css" for name in _DRAWN),
    ],
}
"""The sheets, as a ``Media`` class has them, in their order: a later one may depend on an earlier one."""

_MODULES = ("menus", "markdown", "strip", "dashboard")

# Django's stubs know only addresses in a "Media".
SCRIPTS: Sequence[Any] = [Script(f"chatmemory/admin/{name}.js", type="module") for name in _MODULES]
"""The scripts, as a ``Media`` class has them. Without them the pages say all that they say."""


def conversation_admin(site: AdminSite) -> admin.ModelAdmin[Conversation] | None:
    """Return the site's admin of conversations, which decides who may see which; None if it has none."""
    return site.get_model_admin(Conversation) if site.is_registered(Conversation) else None


def visible_conversations(site: AdminSite, request: HttpRequest) -> QuerySet[Conversation]:
    """Return the conversations that a site shows to a member of staff."""
    conversations = conversation_admin(site)
    if conversations is None:
        return staff.reachable(request.user, Conversation.objects.all())
    return conversations.get_queryset(request)


def is_visible(site: AdminSite, request: HttpRequest, row: Any) -> bool:
    """Return whether a site shows the conversation of ``row`` to a member of staff.

    Django's own pages ask for permissions for rows that they did not read with ``get_queryset``. The page that deletes
    a user asks for each conversation, so those of one owner are read together.

    Args:
        site: the site of the admin.
        request: the request.
        row: a conversation, a row that belongs to one, or None for any.
    """
    if row is None or getattr(row, "is_visible", False):
        return True
    visible = visible_conversations(site, request)
    if not are_limited(visible):
        return True
    database = row._state.db
    rows = Conversation.objects.using(database).filter(pk__in=visible.using(None).order_by().values("pk"))
    if not isinstance(row, Conversation):
        return rows.filter(pk=row.conversation_id).exists()
    if row.owner_id is None:
        return rows.filter(pk=row.pk).exists()
    known: dict[Any, set[Any]] = vars(request).setdefault("_chatmemory_visible", {})
    place = site.name, database, row.owner_id
    if place not in known:
        known[place] = {*rows.filter(owner=row.owner_id).values_list("pk", flat=True)}
    return row.pk in known[place]


def are_limited(conversations: QuerySet[Conversation]) -> bool:
    """Return whether an admin of conversations shows only some, so that rows of others must be left out."""
    return bool(conversations.query.has_filters() or conversations.query.combinator)


NO_OWNER = "none"
"""The value in a URL instead of an owner's primary key."""

MOST_SORTED = 10_000
"""The rows that a list sorts by a column that no index has."""

_MOST_COUNTED = 10_000
_MOST_WORDS = 5


class CappedPaginator(Pages):
    """A paginator that stops counting after a number of pages."""

    @cached_property
    def _counted(self) -> int:
        found: Any = self.object_list
        return int(found.order_by()[: _MOST_COUNTED + 1].count())

    @property
    def count(self) -> int:
        return min(self._counted, _MOST_COUNTED)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than it counts."""
        return self._counted > _MOST_COUNTED


class CappedList(ChangeList):
    """A list that is counted only up to a limit, and that reads no more of other rows than finds those of a page."""

    paginator: CappedPaginator
    model_admin: Any
    result_count: Any
    result_list: Any
    sortable_by: Any

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # To sort whole rows, databases read them all. So the page's keys come first, by an index where there is one.
        keys = list(self.result_list.values_list("pk", flat=True))
        rows = {row.pk: row for row in self.rows(request, keys)}
        self.result_list = [rows[key] for key in keys if key in rows]
        # A link to other rows of a list to choose from must lead to one to choose from, too.
        popup = {name: self.params[name] for name in (IS_POPUP_VAR, TO_FIELD_VAR) if name in self.params}
        for row in self.result_list:
            row.popup = popup

    def rows(self, request: HttpRequest, keys: list[Any]) -> QuerySet[Any]:
        """Return the rows of a page, in any order."""
        rows: QuerySet[Any] = self.apply_select_related(self.root_queryset.filter(pk__in=keys).order_by())
        return rows

    def get_ordering_field(self, field_name: Any) -> Any:
        # Otherwise an address could still ask for any column.
        return super().get_ordering_field(field_name) if field_name in self.sortable_by else None

    @property
    def as_said(self) -> ChangeList:
        """The list as it is shown: a count that was cut short ends in a plus sign."""
        said = copy(self)
        if self.paginator.is_capped:
            said.result_count = gettext("%(count)s+") % {"count": grouped(self.result_count)}
        return said


def words(search_term: str) -> list[str]:
    """Return the first few words of a search; words in quotation marks count as one.

    Further words are ignored: each is a condition of its own, and databases bound their number. So are characters
    after the first ``LONGEST_SEARCH``. Characters that no database takes become one that no text has.
    """
    return list(islice(smart_split(with_replacements(search_term[:LONGEST_SEARCH])), _MOST_WORDS))


def unquoted(word: str) -> str:
    """Return a word of a search without the quotation marks around it."""
    return unescape_string_literal(word) if word[0] in "\"'" and word[0] == word[-1] else word


def said_with(model: type[Model], conversations: QuerySet[Conversation], word: str) -> Q | None:
    """Return a capability's condition on rows of a list for a word of a search; None if no capability answers.

    Args:
        model: ``Conversation`` or ``Message``.
        conversations: the conversations to search, with their database.
        word: the word. Without the quotation marks around it, several words are a phrase.
    """
    # Filters of a project may repeat rows.
    rows = Conversation.objects.using(conversations.db).filter(pk__in=conversations.order_by().values("pk"))
    found: Q | None = first("search", model, rows, f'"{word}"' if len(word.split()) > 1 else word)
    return found


def searched(request: HttpRequest) -> list[str]:
    """Return the words that a request for a list searches for, without quotation marks."""
    return [found for word in words(request.GET.get(SEARCH_VAR, "")) if (found := unquoted(word))]


def storable(query: QueryDict) -> QueryDict:
    """Return the query of an address without U+0000 and half surrogate pairs, which no database takes."""
    taken = QueryDict(mutable=True)
    for name, values in query.lists():
        taken.setlist(with_replacements(name), with_replacements(values))
    return taken


def is_offered(model_admin: Any, request: HttpRequest, lookup: str) -> bool:
    """Return whether a condition in the address of a list is one that the list's filters make.

    Others are for nobody. With one on what messages say, it could be guessed letter by letter by those who may not
    read it; a regular expression need not be one, and may run forever; of metadata, not all databases can tell what it
    contains. A field to choose a conversation in, in a window of its own, may have conditions of its own.
    """
    if not {"text", "payload", "native", "metadata", "regex", "iregex"}.isdisjoint(lookup.split(LOOKUP_SEP)):
        return False
    if IS_POPUP_VAR in request.GET:
        return True
    offered = {model_admin.date_hierarchy}
    for found in model_admin.get_list_filter(request):
        field = found[0] if isinstance(found, (list, tuple)) else found
        offered.add(getattr(field, "parameter_name", field))
    return any(lookup == name or lookup.startswith(f"{name}{LOOKUP_SEP}") for name in offered)


class ReadOnlyAdmin(ModelAdmin):
    """The admin of read-only rows, in lists that stay fast with many rows."""

    changelist: ClassVar[type[CappedList]]
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = STYLES
        js = SCRIPTS

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CappedList]:
        return self.changelist

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        request.GET = storable(request.GET)  # type: ignore[assignment]
        return super().get_changelist_instance(request)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        return is_offered(self, request, lookup) and super().lookup_allowed(lookup, value, request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class FullnessFilter(admin.SimpleListFilter):
    """A filter by how full the window is."""

    title = _("fullness")
    parameter_name = "fullness"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("empty", _("empty")),
            ("low", _("less than half")),
            ("high", _("half or more")),
            # xgettext:no-python-format
            ("full", _("90% or more")),
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


class YesNoFilter(admin.SimpleListFilter):
    """A filter with the choices yes and no."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Yes")), ("no", _("No"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> QuerySet[Any]:
        found: QuerySet[Any] = queryset
        return found if self.value() not in {"yes", "no"} else self.having(queryset, self.value() == "yes")

    def having(self, rows: Any, wanted: bool) -> QuerySet[Any]:
        """Return the rows of which it is so if it is wanted, else the others."""
        raise NotImplementedError


class HasEvictedFilter(YesNoFilter):
    """A filter by whether messages were evicted."""

    title = _("evicted messages")
    parameter_name = "evicted"

    def having(self, rows: ConversationQuerySet, wanted: bool) -> QuerySet[Conversation]:
        return rows.with_evicted(wanted)


class OwnerFilter(admin.SimpleListFilter):
    """A filter by owner. It lists no owners, because there may be many; who was chosen in the list is shown."""

    title = _("owner")
    parameter_name = "owner"
    path: ClassVar[str] = "owner"
    """The lookup from a row of the list to the owner."""

    @classmethod
    def link(cls, conversation: Conversation, popup: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return whose a conversation is, as a link that filters by them.

        Args:
            conversation: the conversation.
            popup: the parameters of a list to choose from.
        """
        owner: Any = conversation.owner
        query = {**popup, "owner": NO_OWNER if owner is None else owner.pk}
        name = gettext("no owner") if owner is None else str(owner)
        return format_html('<a href="?{}"><bdi>{}</bdi></a>', urlencode(query), name)

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, Any]]:
        conversations = conversation_admin(model_admin.admin_site)
        if conversations is None or not conversations.has_view_permission(request):
            return []
        nobody = (NO_OWNER, _("no owner"))
        if self.value() in (None, NO_OWNER):
            return [nobody]
        try:
            chosen = get_user_model()._meta.pk.clean(self.value(), None)
        except ValidationError as error:
            raise IncorrectLookupParameters(error) from error
        # Only an owner of conversations that this site shows is named.
        theirs = conversations.get_queryset(request).filter(owner=chosen).first()
        return [(self.value(), str(chosen if theirs is None else theirs.owner)), nobody]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case None:
                return queryset
            case value if value == NO_OWNER:
                return queryset.filter(**{f"{self.path}__isnull": True})
            case value:
                return queryset.filter(**{self.path: value})


class MessageOwnerFilter(OwnerFilter):
    """A filter of messages by the owner of their conversation."""

    path = "conversation__owner"
