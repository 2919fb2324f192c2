"""What another window would do to a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chatmemory.counting import window_of
from chatmemory.eviction import Entry, EvictionReason
from chatmemory.ledger import rows_of
from chatmemory.models import Conversation, Message
from chatmemory.window import Window, WindowKind, check_kind, check_limit

__all__ = ["WindowTrial", "fit_rows", "try_window"]


@dataclass(frozen=True, kw_only=True)
class WindowTrial:
    """The outcome of a window that was only tried."""

    window: str
    """``"messages"`` or ``"tokens"``."""

    limit: int
    """At most so many of them."""

    retained: list[Message]
    """The rows that would stay, in memory order."""

    evicted: list[tuple[Message, EvictionReason]]
    """The rows that would go, in the order in which they go, and why."""

    tokens: int
    """Tokens of the rows that would stay."""


def try_window(conversation: Conversation, *, window: str | None = None, limit: int | None = None) -> WindowTrial:
    """Try a window on what is retained now; nothing is written.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        ValueError: no such window, or a limit that is not above zero.
    """
    stored = Conversation.objects.using(conversation._state.db).get(pk=conversation.pk)
    bound = replace(
        window_of(stored),
        kind=check_kind(stored.window if window is None else window),
        limit=check_limit(stored.limit if limit is None else limit, "limit"),
    )
    return fit_rows(rows_of(stored).retained(), bound)


def fit_rows(rows: Iterable[Message], bound: Window) -> WindowTrial:
    """What of a conversation's rows, given in memory order, fits a window."""
    tokens = bound.kind is WindowKind.TOKENS
    retained = bound.fit([Entry(row.message, row.token_count if tokens else 1, row) for row in rows])
    stay = [entry.row for entry in retained.entries()]
    return WindowTrial(
        window=bound.kind.value,
        limit=bound.limit,
        retained=stay,
        evicted=[(entry.row, reason) for entry, reason in retained.evicted],
        tokens=sum(row.token_count for row in stay),
    )
