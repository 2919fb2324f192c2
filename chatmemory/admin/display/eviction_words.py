"""The words for why a message left the memory."""

from __future__ import annotations

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.arrivals import Arrival
from chatmemory.admin.display.gauge import grouped
from chatmemory.core.entries import EvictionReason
from chatmemory.core.window import WindowKind
from chatmemory.models import Conversation, Message

__all__ = ["exceeds_window", "larger_than_window", "pushed_out", "summarized_by"]


def exceeds_window(conversation: Conversation, row: Message) -> bool:
    """Return whether a message never fitted its window: it left in the version in which it came, and it is too large.

    No row says how large the window was then. So that the answer cannot be wrong about the window that the page shows,
    it is about today's limit, and only about messages that the window evicted at once.
    """
    return (
        row.eviction_reason == EvictionReason.WINDOW.value
        and row.evicted_in == row.added_in
        and conversation.window == WindowKind.TOKENS.value
        and row.token_count > conversation.limit
    )


def larger_than_window(tokens: int, limit: int) -> str:
    """Return that a message has more tokens than its whole window."""
    words = gettext("larger than the whole window (%(tokens)s of %(limit)s)")
    return words % {"tokens": grouped(tokens), "limit": grouped(limit)}


def pushed_out(by: Arrival) -> str:
    """Return which messages pushed one out."""
    if by.first == by.last:
        return gettext("pushed out by message %(position)s") % {"position": by.first}
    return gettext("pushed out by messages %(first)s to %(last)s") % {"first": by.first, "last": by.last}


def summarized_by(position: int, *, count: int = 1) -> str:
    """Return which message is the summary that stands for so many others."""
    words = ngettext(
        "a summary stands for it: message %(position)s",
        "a summary stands for them: message %(position)s",
        count,
    )
    return words % {"position": position}
