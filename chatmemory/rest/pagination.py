"""Pages that stay put while new rows arrive."""

from __future__ import annotations

from rest_framework.pagination import CursorPagination

__all__ = ["ConversationPagination", "MessagePagination"]


class ConversationPagination(CursorPagination):
    """Last active first."""

    ordering = ("-updated_at", "-id")
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200


class MessagePagination(CursorPagination):
    """In the order said, or with ``?ordering=-position`` newest first."""

    ordering = "position"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
