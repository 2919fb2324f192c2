"""Windows that are worth a try, made of the one that a conversation has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.window_words import SHOWN
from chatmemory.conf import default_limit
from chatmemory.core.entries import RESULTS_KEPT
from chatmemory.core.window import WindowKind
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = ["Preset", "present_settings", "presets"]

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
