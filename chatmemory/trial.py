"""What another window would do to a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from chatmemory.counting import estimator_for
from chatmemory.eviction import Entry, EvictionReason, Retained
from chatmemory.models import Conversation, Message
from chatmemory.window import Window, WindowKind, check_limit

__all__ = ["WindowTrial", "try_window"]


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
        ValueError: no such window, or a limit that is not above zero.
    """
    kind = conversation.window if window is None else window
    if kind not in list(WindowKind):
        raise ValueError(f"window must be one of {', '.join(WindowKind)}, but is: {kind!r}")
    bound = Window(
        kind=WindowKind(kind),
        limit=check_limit(conversation.limit if limit is None else limit, "limit"),
        estimator=estimator_for(conversation.model),
    )
    tokens = bound.kind is WindowKind.TOKENS
    entries = [Entry(row.message, row.token_count if tokens else 1, row) for row in conversation.messages.retained()]
    retained = Retained(entries, total=bound.overhead + sum(entry.cost for entry in entries), limit=bound.limit)
    retained.evict()
    stay = [entry.row for entry in retained.entries()]
    return WindowTrial(
        window=bound.kind.value,
        limit=bound.limit,
        retained=stay,
        evicted=[(entry.row, reason) for entry, reason in retained.evicted],
        tokens=sum(row.token_count for row in stay),
    )
