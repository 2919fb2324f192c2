"""The settings of a window in words."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import Gauge, grouped
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.window import WindowKind

__all__ = ["SETTINGS", "WAY", "bound_words", "pins_problem", "way_words", "window_words"]

WAY = ("low_water", "whole_turns", "keep_tool_results")
"""The names of the settings that say how a window evicts."""

SETTINGS = ("window", "limit", *WAY, "compact_at")
"""The names of the settings that staff may change."""


def window_words(*, window: str, limit: int, **way: Any) -> str:
    """Return the limit, and what is unusual about the way in which the window evicts, as a list in one line."""
    return gettext(", ").join([bound_words(window, limit), *way_words(**way)])


def bound_words(window: str, limit: int) -> str:
    """Return the limit and its unit."""
    if window == WindowKind.TOKENS:
        words = ngettext("at most %(limit)s token", "at most %(limit)s tokens", limit)
    else:
        words = ngettext("at most %(limit)s message", "at most %(limit)s messages", limit)
    return words % {"limit": grouped(limit)}


def way_words(
    *, low_water: int, whole_turns: bool, keep_tool_results: int | None, compact_at: int | None = None
) -> list[str]:
    """Return what is unusual about the way in which messages leave; nothing if they leave as LangChain4j has them."""
    words = []
    if low_water != 100:
        words.append(gettext("evicts down to %(percent)s%%") % {"percent": low_water})
    if whole_turns:
        words.append(gettext("whole turns"))
    if keep_tool_results == 0:
        words.append(gettext("clears old tool results"))
    elif keep_tool_results is not None:
        said = ngettext(
            "keeps only the last tool result",
            "keeps only the last %(count)s tool results",
            keep_tool_results,
        )
        words.append(said % {"count": grouped(keep_tool_results)})
    if compact_at is not None:
        words.append(gettext("a summary is due at %(percent)s%%") % {"percent": compact_at})
    return words


def pins_problem(error: PinnedTooMuchError) -> str:
    """Return the reason why a message cannot be pinned, or a window be so small, and what to do about it."""
    amount = Gauge(used=error.cost, limit=error.limit, counts_tokens=error.unit == WindowKind.TOKENS).amount
    said = gettext(
        "Pinned messages, with the calls, results and questions that stay with them, would take %(amount)s, more than "
        "half. Unpin some, or choose a limit of at least %(least)s."
    )
    return said % {"amount": amount, "least": grouped(error.cost * 2)}
