"""Who may do what in the admin."""

from __future__ import annotations

from django.http import HttpRequest

__all__ = ["may_act", "may_read_text"]


def may_act(request: HttpRequest) -> bool:
    """Whether this member of staff may change windows and clear memories."""
    return request.user.has_perm("chatmemory.change_conversation")


def may_read_text(request: HttpRequest) -> bool:
    """Whether this member of staff may read what messages say; otherwise they see shapes, tokens and reasons."""
    return request.user.has_perm("chatmemory.read_message_text")
