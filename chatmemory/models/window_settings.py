"""The columns that bound a memory."""

from __future__ import annotations

from typing import TypedDict

from django.utils.translation import gettext_lazy as _

from chatmemory.core.window import WindowKind

__all__ = ["MAX_LIMIT", "WINDOWS", "WINDOW_SETTINGS", "DefaultLimit", "WindowSettings"]

MAX_LIMIT = 2_147_483_647  # of an integer column, everywhere

WINDOWS = [(WindowKind.MESSAGES.value, _("messages")), (WindowKind.TOKENS.value, _("tokens"))]


class WindowSettings(TypedDict, total=False):
    """The columns that bound a memory, as keyword arguments. None, like a missing one, means: as it is.

    Without a limit, a new conversation, and one whose window changes its kind, get the default limit of the kind.
    """

    window: str | None
    """``"messages"`` or ``"tokens"``."""

    limit: int | None
    """The most messages or tokens, above zero."""

    model: str | None
    """The model whose tokens are counted."""

    always_keep_system_message_first: bool | None
    """Whether a new system message goes to the front of the memory."""


WINDOW_SETTINGS = tuple(WindowSettings.__annotations__)
"""The names of :class:`WindowSettings`."""


class DefaultLimit(int):
    """The limit of an unsaved row for which none was given; when the row is saved, its window decides anew."""
