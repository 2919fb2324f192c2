"""The windows that bound memories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chatmemory.core.eviction import Entry, Retained
from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens.estimator import TokenCountEstimator, tokens_of, tokens_of_request

__all__ = ["USUAL_LIMITS", "Window", "WindowKind", "check_kind", "check_limit"]


class WindowKind(StrEnum):
    """The unit that a window counts."""

    MESSAGES = "messages"
    TOKENS = "tokens"


USUAL_LIMITS = {WindowKind.MESSAGES: 20, WindowKind.TOKENS: 4000}
"""The limit of each kind of window that suits most chats."""


def check_limit(limit: Any, name: str) -> int:
    """Return ``limit``.

    Raises:
        ValueError: ``limit`` is no whole number above zero.
    """
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
        raise ValueError(f"{name} must be a whole number greater than zero, but is: {limit!r:.300}")
    if limit is None or limit <= 0:
        raise ValueError(f"{name} must be greater than zero, but is: {'null' if limit is None else limit}")
    return limit


def check_kind(kind: Any) -> WindowKind:
    """Return ``kind`` as an enum member.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in list(WindowKind):
        raise ValueError(f"window must be one of {', '.join(WindowKind)}, but is: {kind!r:.300}")
    return WindowKind(kind)


@dataclass(frozen=True, kw_only=True)
class Window:
    """The bound of a memory at one moment."""

    kind: WindowKind

    limit: int
    """The most messages or tokens, above zero."""

    estimator: TokenCountEstimator | None = None
    """The estimator that counts tokens; a window of messages needs none."""

    always_keep_system_message_first: bool = False
    """Whether a new system message goes to the front of the memory instead of its end."""

    def cost(self, message: ChatMessage) -> int:
        """Return the part of ``limit`` that ``message`` takes."""
        if self.kind is WindowKind.MESSAGES or self.estimator is None:
            return 1
        return tokens_of(message, self.estimator)

    def fit(self, entries: list[Entry]) -> Retained:
        """Return the whole memory ``entries`` after eviction."""
        total = self.overhead + sum(entry.cost for entry in entries)
        retained = Retained(entries, total=total, limit=self.limit)
        retained.evict()
        return retained

    @property
    def overhead(self) -> int:
        """The part of ``limit`` that a request takes beside its messages."""
        if self.kind is WindowKind.MESSAGES or self.estimator is None:
            return 0
        return tokens_of_request(self.estimator)
