"""The filters, orders and pages of the lists. The parameter ``owner`` is checked in ``chatmemory.rest.access``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from itertools import accumulate, takewhile
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_aware, make_naive
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField
from rest_framework.exceptions import NotFound
from rest_framework.filters import OrderingFilter
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from chatmemory.capabilities import first
from chatmemory.conf import setting
from chatmemory.core.arguments import whole_number
from chatmemory.database.operations.compact import UNCOVERED
from chatmemory.models import (
    EVICTION_REASONS,
    LONGEST_SEARCH,
    MAX_LIMIT,
    PINNED,
    TYPES,
    WINDOWS,
    Conversation,
    ConversationQuerySet,
    Message,
    MessageQuerySet,
    Origin,
)
from chatmemory.models.branch import on_current_branch
from chatmemory.models.conversation_names import kept_names
from chatmemory.rest.access import one_owner
from chatmemory.rest.problems import invalid
from chatmemory.rest.reader import Reader

TEXT_FILTERS = ("search", "metadata_key")
"""The filters whose results tell what messages or metadata say."""

_LONGEST_TEXT = 255


class _Text(filters.CharFilter):
    def __init__(self, *args: Any, max_length: int = _LONGEST_TEXT, **kwargs: Any) -> None:
        super().__init__(*args, max_length=max_length, strip=False, **kwargs)


class _Whole(filters.NumberFilter):
    field_class = forms.IntegerField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, min_value=0, max_value=MAX_LIMIT, **kwargs)

    def get_max_validator(self) -> None:
        return None


class _MomentField(IsoDateTimeField):
    def clean(self, value: Any) -> Any:
        moment = super().clean(value)
        if moment is None:
            return None
        try:
            return moment.astimezone(UTC) if settings.USE_TZ else make_naive(moment.astimezone(UTC))
        except OverflowError as error:  # such as the year 1 east of Greenwich
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from error


class _Moment(filters.IsoDateTimeFilter):
    field_class = _MomentField


class _FlagField(forms.Field):
    def to_python(self, value: Any) -> bool | None:
        if value in self.empty_values:
            return None
        if str(value).lower() not in {"true", "false"}:
            raise forms.ValidationError("expected true or false", code="invalid")
        return str(value).lower() == "true"


class _Flag(filters.BooleanFilter):
    """A filter that refuses a value that is neither true nor false; django-filter's ignores it."""

    field_class = _FlagField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, widget=forms.TextInput, **kwargs)


class _Choices(filters.BaseInFilter, filters.ChoiceFilter):
    """Any of several, with commas between them."""


class ConversationFilter(filters.FilterSet):
    """The filters of the list of conversations."""

    memory_id = _Text(method="filter_memory_id", help_text="Exactly this memory ID.")
    window = filters.ChoiceFilter(choices=WINDOWS, help_text="The kind of window.")
    title = _Text(lookup_expr="icontains", help_text="A part of the title.")
    search = _Text(
        method="filter_search",
        max_length=LONGEST_SEARCH,
        help_text="A part of the title or of the text of a message.",
    )
    has_evicted = _Flag(method="filter_has_evicted", help_text="Whether any message has left the memory.")
    metadata_key = _Text(field_name="metadata", lookup_expr="has_key", help_text="The metadata have this key.")
    created_after = _Moment(field_name="created_at", lookup_expr="gte")
    created_before = _Moment(field_name="created_at", lookup_expr="lt")
    updated_after = _Moment(field_name="updated_at", lookup_expr="gte")
    updated_before = _Moment(field_name="updated_at", lookup_expr="lt")

    class Meta:
        model = Conversation
        fields: list[str] = []

    def filter_memory_id(self, queryset: ConversationQuerySet, name: str, value: str) -> ConversationQuerySet:
        # One owner's conversation is found by its name. Several owners may use one memory ID, so every node is asked.
        owner = None if kept_names(queryset.db) is None else one_owner(self.request)
        return queryset.filter(memory_id=value) if owner is None else queryset.named(owner, value)

    def filter_search(self, queryset: ConversationQuerySet, name: str, value: str) -> ConversationQuerySet:
        types = Reader.of(self.request).searched_types
        said = first("search", Conversation, queryset, value, types)
        if said is None:
            rows = Message.objects.history().filter(conversation=OuterRef("pk"), text__icontains=value)
            rows = rows.filter(type__in=types) if types else rows
            said = Q(Exists(rows.order_by()))
        return queryset.filter(Q(title__icontains=value) | said)

    def filter_has_evicted(self, queryset: ConversationQuerySet, name: str, value: bool) -> ConversationQuerySet:
        return queryset.with_evicted(value)


class MessageFilter(filters.FilterSet):
    """The filters of the history. Without ``origin`` they find only messages that were said."""

    state = _Choices(
        choices=[("retained", "retained"), ("evicted", "evicted")],
        method="filter_state",
        help_text="retained, evicted, or both with a comma between them.",
    )
    type = _Choices(choices=TYPES, help_text="One or more, with commas between them.")
    reason = _Choices(
        choices=EVICTION_REASONS,
        field_name="eviction_reason",
        help_text="Why it was evicted: one or more, with commas between them.",
    )
    origin = _Choices(
        choices=Origin.choices,
        help_text="How it came into the memory: one or more, with commas between them. Without it, what was said.",
    )
    pinned = _Flag(method="filter_pinned", help_text="Whether it is in the memory, and the window may not evict it.")
    uncovered = _Flag(
        method="filter_uncovered",
        help_text="Whether it left the memory for want of room, and no summary covers it.",
    )
    branch = filters.ChoiceFilter(
        choices=[("current", "current")],
        method="filter_branch",
        help_text="current: only what is on the current branch.",
    )
    position_min = _Whole(field_name="position", lookup_expr="gte")
    position_max = _Whole(field_name="position", lookup_expr="lte")
    created_after = _Moment(field_name="created_at", lookup_expr="gte")
    created_before = _Moment(field_name="created_at", lookup_expr="lt")
    evicted_after = _Moment(field_name="evicted_at", lookup_expr="gte")
    evicted_before = _Moment(field_name="evicted_at", lookup_expr="lt")
    search = _Text(method="filter_search", max_length=LONGEST_SEARCH, help_text="A part of the text.")

    def filter_state(self, queryset: MessageQuerySet, name: str, value: list[str]) -> MessageQuerySet:
        return queryset if len(set(value)) != 1 else queryset.filter(evicted_in__isnull=value[0] == "retained")

    def filter_pinned(self, queryset: MessageQuerySet, name: str, value: bool) -> MessageQuerySet:
        return queryset.filter(PINNED if value else ~PINNED)

    def filter_uncovered(self, queryset: MessageQuerySet, name: str, value: bool) -> MessageQuerySet:
        return queryset.filter(UNCOVERED if value else ~UNCOVERED)

    def filter_branch(self, queryset: MessageQuerySet, name: str, value: str) -> MessageQuerySet:
        key = self.request.parser_context["kwargs"]["conversation_id"]
        return queryset.filter(on_current_branch(Conversation(pk=key)))

    def filter_search(self, queryset: MessageQuerySet, name: str, value: str) -> MessageQuerySet:
        said, types = None, Reader.of(self.request).searched_types
        if self.form.cleaned_data["origin"] in (None, [], [Origin.SAID]):
            key = self.request.parser_context["kwargs"]["conversation_id"]
            said = first("search", Message, Conversation.objects.using(queryset.db).filter(pk=key), value, types)
        found = queryset.filter(Q(text__icontains=value) if said is None else said)
        return found.filter(type__in=types) if types else found

    def filter_queryset(self, queryset: MessageQuerySet) -> MessageQuerySet:
        found: MessageQuerySet = super().filter_queryset(queryset)
        return found if self.form.cleaned_data["origin"] else found.history()


class StrictOrderingFilter(OrderingFilter):
    """An order that is not offered is an error, not another order."""

    ordering_param = "ordering"

    def remove_invalid_fields(self, queryset: Any, fields: Iterable[str], view: Any, request: Request) -> list[str]:
        offered = [sign + name for name in view.ordering_fields for sign in ("", "-")]
        wanted = list(fields)
        for field in wanted:
            if field not in offered:
                raise invalid(
                    self.ordering_param,
                    "expected one of %(choices)s, got %(got)s",
                    code="invalid_choice",
                    choices=offered,
                    got=repr(field[:100]),
                )
        if "position" in view.ordering_fields or not wanted:
            return wanted
        return [*wanted, "-id" if wanted[0].startswith("-") else "id"]  # for those of the same moment


class _Pagination(CursorPagination):
    page_size_query_param = "page_size"
    offset_cutoff = MAX_LIMIT  # any number of rows may have one timestamp, after an import say

    def get_page_size(self, request: Request) -> int:
        asked = request.query_params.get(self.page_size_query_param)
        if asked is None:
            return int(setting("PAGE_SIZE"))
        size = whole_number(asked)
        if not size:
            raise invalid("page_size", "expected a whole number above zero")
        most: int = setting("MAX_PAGE_SIZE")
        return min(size, most)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValueError, OverflowError, ValidationError) as error:  # forged: the field cannot read it
            if self.cursor_query_param not in request.query_params:
                raise
            raise invalid("cursor", "not a cursor of this list; follow next and previous, or leave it out") from error


class ConversationPagination(_Pagination):
    """Last active first."""

    ordering = ("-updated_at", "-id")

    def decode_cursor(self, request: Request) -> Any:
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            moment = parse_datetime(str(cursor.position))
            if moment is None or is_aware(moment) != settings.USE_TZ:
                raise ValueError("the position is no moment")
        return cursor


class MessagePagination(_Pagination):
    """Messages in the order said, or with ``?ordering=-position`` newest first.

    A page has at most ``MAX_PAGE_CHARS`` characters, as ``Reader.chars`` counts them, however many messages were asked
    for, but at least one message.
    """

    ordering = "position"
    _most_messages: int | None = None

    def get_page_size(self, request: Request) -> int:
        return self._most_messages or super().get_page_size(request)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        # The lengths say where the page ends, so the texts of other messages need not be read.
        lengths = queryset.only("position", "conversation").annotate(chars=Reader.of(request).chars)
        page = super().paginate_queryset(lengths, request, view)
        if self.cursor is not None and self.cursor.reverse:
            page = page[::-1]  # a previous page is read backwards, so it is cut at its beginning
        fitting = takewhile(lambda total: total <= setting("MAX_PAGE_CHARS"), accumulate(row.chars for row in page))
        self._most_messages = max(1, len([*fitting]))
        return super().paginate_queryset(queryset.defer("native"), request, view)
