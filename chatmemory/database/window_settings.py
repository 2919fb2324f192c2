"""The settings of a window that a caller gives: checked, and set on a conversation."""

from __future__ import annotations

from chatmemory.conf import default_limit
from chatmemory.models import WINDOW_SETTINGS, Conversation, WindowSettings
from chatmemory.models.window_settings import NULLABLE, check_stored

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
            check_stored(name, value)


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
