"""Pages that stay put while new rows arrive."""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_aware
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from chatmemory.conf import setting
from chatmemory.core.numbers import whole_number
from chatmemory.database.batches import CHARS
from chatmemory.models import MAX_LIMIT
from chatmemory.rest.problems import invalid

__all__ = ["ConversationPagination", "MessagePagination"]


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

    A page has at most ``MAX_PAGE_CHARS`` characters, however many messages were asked for, but at least one message.
    """

    ordering = "position"
    _most_messages: int | None = None

    def get_page_size(self, request: Request) -> int:
        return self._most_messages or super().get_page_size(request)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        # The lengths say where the page ends, so the texts of other messages need not be read.
        lengths = queryset.only("position", "conversation").annotate(chars=CHARS)
        page = super().paginate_queryset(lengths, request, view)
        if self.cursor is not None and self.cursor.reverse:
            page = page[::-1]  # a previous page is read backwards, so it is cut at its beginning
        fitting = takewhile(lambda total: total <= setting("MAX_PAGE_CHARS"), accumulate(row.chars for row in page))
        self._most_messages = max(1, len([*fitting]))
        return super().paginate_queryset(queryset.defer("native"), request, view)
