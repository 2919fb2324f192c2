"""The settings of a window in words, and windows under a name that are worth a try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import Gauge, grouped
from chatmemory.conf import default_limit
from chatmemory.core.entries import RESULTS_KEPT
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.window import RULES, WindowKind
from chatmemory.core.window_settings import SETTINGS
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = [
    "BOUND",
    "SHOWN",
    "WAY",
    "bound_words",
    "pins_problem",
    "present_settings",
    "presets",
    "setting_words",
    "way_words",
    "window_words",
]

BOUND = ("window", "limit")
"""The names of the settings that say how much fits."""

SHOWN = tuple(name for name in SETTINGS if name != "model")
"""The names of the settings that staff may change."""

WAY = tuple(name for name in SHOWN if name in RULES and name not in BOUND)
"""The names of the settings that say what a window evicts."""


def window_words(settings: dict[str, Any]) -> str:
    """Return the limit, and what is unusual about the other settings of :data:`SHOWN`, as a list in one line."""
    return gettext(", ").join([bound_words(settings["window"], settings["limit"]), *way_words(settings)])


def bound_words(window: str, limit: int) -> str:
    """Return the limit and its unit."""
    if window == WindowKind.TOKENS:
        words = ngettext("at most %(limit)s token", "at most %(limit)s tokens", limit)
    else:
        words = ngettext("at most %(limit)s message", "at most %(limit)s messages", limit)
    return words % {"limit": grouped(limit)}


def way_words(settings: dict[str, Any]) -> list[str]:
    """Return what is unusual about the settings but for the bound; nothing if messages leave as in LangChain4j."""
    return [
        setting_words(name, settings[name])
        for name in SHOWN
        if name not in BOUND and settings[name] != SETTINGS[name].default
    ]


def setting_words(name: str, value: Any) -> str:
    """Return what a setting makes a window do."""
    setting = SETTINGS[name]
    words = setting.words_for.get(value, setting.words)
    shown = _value_words(value)
    return gettext(words) % {"value": shown} if words else f"{gettext(setting.label)}: {shown}"


def _value_words(value: Any) -> str:
    if value is None:
        return gettext("none")
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return grouped(value) if isinstance(value, int) else str(value)


def pins_problem(error: PinnedTooMuchError) -> str:
    """Return the reason why a message cannot be pinned, or a window be so small, and what to do about it."""
    amount = Gauge(used=error.cost, limit=error.limit, counts_tokens=error.unit == WindowKind.TOKENS).amount
    said = gettext(
        "Pinned messages, with the calls, results and questions that stay with them, would take %(amount)s, more than "
        "half. Unpin some, or choose a limit of at least %(least)s."
    )
    return said % {"amount": amount, "least": grouped(error.cost * 2)}


_LOW_WATER = 70


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A window under a name."""

    name: str

    settings: dict[str, Any]
    """Every setting that staff may change."""


def present_settings(conversation: Conversation) -> dict[str, Any]:
    """Return the window that a conversation has: every setting that staff may change."""
    return {name: getattr(conversation, name) for name in SHOWN}


def presets(conversation: Conversation) -> list[Preset]:
    """Return windows that differ from the one of a conversation and from each other, those that tell most first."""
    present = present_settings(conversation)
    limit = conversation.limit
    changes: list[tuple[str, dict[str, Any]]] = [
        (gettext("Half"), {"limit": max(1, limit // 2)}),
        (gettext("Double"), {"limit": min(MAX_LIMIT, limit * 2)}),
        (
            gettext("Whole turns, down to %(percent)s%%") % {"percent": _LOW_WATER},
            {"low_water": _LOW_WATER, "whole_turns": True},
        ),
        *((_amount(kind), {"window": kind.value, "limit": default_limit(kind.value)}) for kind in WindowKind),
    ]
    if conversation.window == WindowKind.TOKENS:  # a placeholder is a message, too
        kept = ngettext("Keep %(count)s tool result", "Keep %(count)s tool results", RESULTS_KEPT)
        changes.append((kept % {"count": grouped(RESULTS_KEPT)}, {"keep_tool_results": RESULTS_KEPT}))
    found: list[Preset] = []
    known = [present]
    for name, changed in changes:
        settings = present | changed
        if settings not in known:
            known.append(settings)
            found.append(Preset(name=name, settings=settings))
    return found


def _amount(kind: WindowKind) -> str:
    limit = default_limit(kind.value)
    if kind is WindowKind.TOKENS:
        words = ngettext("%(limit)s token", "%(limit)s tokens", limit)
    else:
        words = ngettext("%(limit)s message", "%(limit)s messages", limit)
    return words % {"limit": grouped(limit)}
