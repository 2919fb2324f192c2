"""The figures of a replay, and the meter that counts them."""

from __future__ import annotations

from dataclasses import dataclass

from chatmemory.core.window import RULES, Window, WindowKind, WindowRules
from chatmemory.core.window_settings import SETTINGS

__all__ = ["FIGURES", "REPLAYED", "Meter", "Replay", "RequestFigures"]

REPLAYED = tuple(name for name in SETTINGS if name == "window" or name in RULES)
"""The names of the settings that a replay can vary."""

FIGURES = {
    "requests": "Requests to the model: one for each answer that was said.",
    "input_tokens": "The tokens of all requests: those of their messages, as stored.",
    "cacheable_tokens": "The tokens of the input with which the request before began, too.",
    "full_price_tokens": "The other tokens of the input.",
    "hit_share": "The part of the input that a provider's prompt cache may have had, from 0 to 1.",
    "prefix_breaks": "Requests that do not begin with the whole request before.",
    "evictions": "Messages that had no room, or gave way to a placeholder.",
    "mean_fill": "The part of the limit that a request took, on average.",
    "repairs": "Requests whose first message after the system message is not the user's, or with a tool result without "
    "its call.",
    "missing": "Messages that were deleted, so that nothing is known of them.",
}
"""What the figures of a :class:`Replay` say, by their names, in the order in which they are shown."""


@dataclass(frozen=True, kw_only=True)
class RequestFigures:
    """Figures of requests; :data:`FIGURES` describes each."""

    requests: int = 0
    input_tokens: int = 0
    cacheable_tokens: int = 0
    prefix_breaks: int = 0
    evictions: int = 0
    repairs: int = 0
    missing: int = 0

    @property
    def hit_share(self) -> float:
        return self.cacheable_tokens / self.input_tokens if self.input_tokens else 0.0

    @property
    def full_price_tokens(self) -> int:
        return self.input_tokens - self.cacheable_tokens

    @property
    def break_share(self) -> float:
        """The part of the requests that break their prefix, from 0 to 1."""
        return self.prefix_breaks / self.requests if self.requests else 0.0


@dataclass(frozen=True, kw_only=True)
class Replay(WindowRules, RequestFigures):
    """The requests of a conversation under one window, in figures."""

    window: str
    """``"messages"`` or ``"tokens"``."""

    mean_fill: float
    """As :data:`FIGURES` says. It may exceed 1."""


class Meter:
    """Counts the requests of one walk through a history."""

    def __init__(self, window: Window) -> None:
        self.evictions = 0
        self._window = window
        self._requests = self._input = self._cacheable = self._breaks = self._repairs = self._fill = 0

    def count_request(self, *, size: int, tokens: int, cacheable: int, is_prefix: bool, needs_repair: bool) -> None:
        """Count a request.

        Args:
            size: its number of messages.
            tokens: its tokens.
            cacheable: the tokens with which the request before began, too.
            is_prefix: whether it begins with the whole request before.
            needs_repair: whether no API takes it as it is.
        """
        self._requests += 1
        self._input += tokens
        self._cacheable += cacheable
        self._breaks += not is_prefix
        self._repairs += needs_repair
        self._fill += self._window.overhead + tokens if self._window.kind is WindowKind.TOKENS else size

    def figures(self, missing: int) -> Replay:
        """Return the figures of the walk; ``missing`` is the number of messages that were deleted."""
        window = self._window
        return Replay(
            window=window.kind.value,
            **{name: getattr(window, name) for name in RULES},
            requests=self._requests,
            input_tokens=self._input,
            cacheable_tokens=self._cacheable,
            prefix_breaks=self._breaks,
            evictions=self.evictions,
            mean_fill=self._fill / (self._requests * window.limit) if self._requests else 0.0,
            repairs=self._repairs,
            missing=missing,
        )
