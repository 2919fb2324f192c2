"""The settings of a window that a caller gives: checked, and set on a conversation."""

from __future__ import annotations

from typing import Any

from chatmemory.conf import default_limit
from chatmemory.core.summaries import check_compact_at
from chatmemory.core.window import check_flag, check_keep_tool_results, check_kind, check_limit, check_low_water
from chatmemory.database.estimators import check_model
from chatmemory.models import MAX_LIMIT, WINDOW_SETTINGS, Conversation, WindowSettings
from chatmemory.models.window_settings import FLAGS, NULLABLE

__all__ = ["apply_window_settings", "check_window_settings"]


def check_window_settings(settings: WindowSettings) -> None:
    """Raise if a conversation cannot have these settings.

    Raises:
        TypeError: a setting that does not exist.
        ValueError: a setting has no meaning.
    """
    unknown = settings.keys() - set(WINDOW_SETTINGS)
    if unknown:
        raise TypeError(f"unknown settings of a window: {', '.join(sorted(unknown))}; use {', '.join(WINDOW_SETTINGS)}")
    for name, value in settings.items():
        if value is not None:
            _check(name, value)


def _check(name: str, value: Any) -> None:
    if name in FLAGS:
        check_flag(value, name)
    match name:
        case "window":
            check_kind(value)
        case "limit":
            _check_storable(check_limit(value, name), name)
        case "model":
            check_model(value)
        case "low_water":
            check_low_water(value)
        case "keep_tool_results":
            _check_storable(check_keep_tool_results(value), name)
        case "compact_at":
            check_compact_at(value)


def _check_storable(value: int | None, name: str) -> None:
    if value is not None and value > MAX_LIMIT:
        raise ValueError(f"{name} must be at most {MAX_LIMIT}, but is: {value}")


def apply_window_settings(conversation: Conversation, settings: WindowSettings) -> bool:
    """Set the given columns of ``conversation``, unsaved; return whether another model counts its tokens then.

    A window of another kind without a limit gets the default limit of that kind.
    """
    counted_by = conversation.model
    window = settings.get("window")
    if window not in (None, conversation.window):
        conversation.limit = default_limit(window)
    for name, value in settings.items():
        if value is not None or name in NULLABLE:
            setattr(conversation, name, value)
    return bool(conversation.model != counted_by)
