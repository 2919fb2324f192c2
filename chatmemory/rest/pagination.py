"""Pages that stay put while new rows arrive."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination

__all__ = ["ConversationPagination", "MessagePagination"]


class _Pagination(CursorPagination):
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, ValidationError) as error:  # a forged position, which the field cannot read
            raise NotFound(self.invalid_cursor_message) from error


class ConversationPagination(_Pagination):
    """Last active first."""

    ordering = ("-updated_at", "-id")


class MessagePagination(_Pagination):
    """In the order said, or with ``?ordering=-position`` newest first."""

    ordering = "position"
