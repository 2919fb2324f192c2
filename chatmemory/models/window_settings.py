"""The columns that bound a memory."""

from __future__ import annotations

from typing import TypedDict

from django.utils.translation import gettext_lazy as _

from chatmemory.core.window import WindowKind

__all__ = ["FLAGS", "MAX_LIMIT", "NULLABLE", "WINDOWS", "WINDOW_SETTINGS", "DefaultLimit", "WindowSettings"]

MAX_LIMIT = 2_147_483_647  # of an integer column, everywhere

WINDOWS = [(WindowKind.MESSAGES.value, _("messages")), (WindowKind.TOKENS.value, _("tokens"))]


class WindowSettings(TypedDict, total=False):
    """The columns that bound a memory, as keyword arguments. A missing one stays as it is.

    So does one that is None, except :data:`NULLABLE` ones, where None has a meaning. Without a limit, a new
    conversation, and one whose window changes its kind, get the default limit of the kind.
    """

    window: str | None
    """``"messages"`` or ``"tokens"``."""

    limit: int | None
    """The most messages or tokens, above zero."""

    model: str | None
    """The model whose tokens are counted."""

    always_keep_system_message_first: bool | None
    """Whether a new system message goes to the front of the memory."""

    low_water: int | None
    """The percent of the limit, from 1 to 100, down to which a full window evicts."""

    whole_turns: bool | None
    """Whether whole turns leave: a user message with all that follows it before the next one."""

    keep_tool_results: int | None
    """The number of tool results that stay when older ones give way to placeholders; None: no result gives way."""

    compact_at: int | None
    """The percent of the limit, from 1 to 100, at which a summary of older turns is due; None: never."""


WINDOW_SETTINGS = tuple(WindowSettings.__annotations__)
"""The names of :class:`WindowSettings`."""

NULLABLE = ("keep_tool_results", "compact_at")
"""The names of the settings that may be None."""

FLAGS = ("always_keep_system_message_first", "whole_turns")
"""The names of the settings that are true or false."""


class DefaultLimit(int):
    """The limit of an unsaved row for which none was given; when the row is saved, its window decides anew."""
