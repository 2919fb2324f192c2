"""The windows that bound memories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens.estimator import TokenCountEstimator, tokens_of, tokens_of_request

__all__ = [
    "USUAL_LIMITS",
    "Window",
    "WindowKind",
    "check_flag",
    "check_keep_tool_results",
    "check_kind",
    "check_limit",
    "check_low_water",
]


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


def check_low_water(low_water: Any) -> int:
    """Return ``low_water``.

    Raises:
        ValueError: it is no whole number from 1 to 100.
    """
    if isinstance(low_water, bool) or not isinstance(low_water, int) or not 1 <= low_water <= 100:
        raise ValueError(f"low_water must be a percentage from 1 to 100, but is: {low_water!r:.300}")
    return low_water


def check_keep_tool_results(keep: Any, name: str = "keep_tool_results") -> int | None:
    """Return ``keep``.

    Raises:
        ValueError: it is neither None nor a whole number of at least zero.
    """
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 0):
        raise ValueError(f"{name} must be a whole number of at least zero, or null, but is: {keep!r:.300}")
    return keep


def check_flag(value: Any, name: str) -> bool:
    """Return ``value``.

    Raises:
        ValueError: it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, but is: {value!r:.300}")
    return value


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

    low_water: int = 100
    """The percent of ``limit`` down to which a full window evicts."""

    whole_turns: bool = False
    """Whether whole turns leave: a user message with all that follows it before the next one."""

    keep_tool_results: int | None = None
    """The number of tool results that stay when older ones give way to placeholders; None: no result gives way."""

    def cost(self, message: ChatMessage) -> int:
        """Return the part of ``limit`` that ``message`` takes."""
        if self.kind is WindowKind.MESSAGES or self.estimator is None:
            return 1
        return tokens_of(message, self.estimator)

    @property
    def overhead(self) -> int:
        """The part of ``limit`` that a request takes beside its messages."""
        if self.kind is WindowKind.MESSAGES or self.estimator is None:
            return 0
        return tokens_of_request(self.estimator)
