"""The ways that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from chatmemory.core.window import PRESETS

__all__ = ["LIMITS", "LONGEST_SUMMARY", "WAYS", "Way"]

LIMITS = (4_000, 16_000, 64_000)
"""The limits of the windows, in tokens."""

LONGEST_SUMMARY = 800
"""The tokens of a summary, which has no more than a tenth of the limit: what ``ChatModelSummarizer`` asks for."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to keep a conversation within a limit."""

    name: str

    settings: Mapping[str, Any]
    """The arguments of ``set_window()``, but for the limit."""

    keep_first: int = 0
    """The percent of the limit that is an anchored head."""

    summarizes: bool = False


def _summaries(at: int, keep: int) -> Way:
    settings = {"preset": "long", "compact_at": at, "compact_keep": keep}
    return Way(name=f"summaries {at}/{keep}", settings=settings, summarizes=True)


_LONG = PRESETS["long"].settings
WAYS: dict[str, Way] = {
    **{name: Way(name=f"`{name}`", settings={"preset": name}) for name in ("langchain4j", "chat", "agent")},
    "low": Way(name="mark of 40", settings={"low_water": 40, "whole_turns": True}),
    "head": Way(name="mark of 70, head of 30", settings={"low_water": 70, "whole_turns": True}, keep_first=30),
    "early": _summaries(80, 50),
    "long": replace(_summaries(_LONG["compact_at"], _LONG["compact_keep"]), name="`long`"),
}
"""The ways that are compared. Presets have their own names; ``chat`` is what the others are compared with."""
