"""The windows that bound memories."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypedDict

from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens.estimators import TokenCountEstimator, tokens_of, tokens_of_request


class WindowKind(StrEnum):
    """The unit that a window counts."""

    MESSAGES = "messages"
    TOKENS = "tokens"


USUAL_LIMITS = {WindowKind.MESSAGES: 20, WindowKind.TOKENS: 4000}
"""The limit of each kind of window that suits most chats."""


@dataclass(frozen=True, kw_only=True)
class WindowRules:
    """The settings that decide what a window evicts; ``core.window_settings`` describes each."""

    limit: int
    always_keep_system_message_first: bool = False
    low_water: int = 100
    whole_turns: bool = False
    keep_tool_results: int | None = None


RULES = tuple(rule.name for rule in fields(WindowRules))
"""The names of :class:`WindowRules`."""


class WindowOptions(TypedDict, total=False):
    """Keyword arguments of every memory: :class:`WindowRules` but for the limit, which each memory calls its own."""

    always_keep_system_message_first: bool
    low_water: int
    whole_turns: bool
    keep_tool_results: int | None


@dataclass(frozen=True, kw_only=True)
class Window(WindowRules):
    """The bound of a memory at one moment."""

    kind: WindowKind

    estimator: TokenCountEstimator | None = None
    """The estimator that counts tokens; a window of messages needs none."""

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
