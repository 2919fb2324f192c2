"""The settings of the conversations that adapters create."""

from __future__ import annotations

from typing import Any, Unpack, cast

from chatmemory.core.serialization.storable import require_storable
from chatmemory.database.window_settings import check_window_settings
from chatmemory.models import Conversation, WindowSettings

__all__ = ["ConversationSettings", "settings_of_new"]


class ConversationSettings(WindowSettings, total=False):
    """Keyword arguments of every adapter, for a conversation that it creates.

    None is the project's default, also of settings for which None is a value. A conversation that exists keeps its own.
    """

    title: str | None
    """The title, with at most 255 characters."""


def settings_of_new(**settings: Unpack[ConversationSettings]) -> dict[str, Any]:
    """Return the columns of a new conversation: ``settings`` without those that are None.

    Raises:
        TypeError: a name that is not in :class:`ConversationSettings`.
        ValueError: a setting of the window has no meaning, or the title is too long.
    """
    known = ConversationSettings.__annotations__
    for name in settings:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; expected one of {', '.join(known)}")
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    title = given.get("title")
    if title is not None:
        longest = Conversation._meta.get_field("title").max_length or 0
        if len(require_storable(title, "title")) > longest:
            raise ValueError(f"title must have at most {longest} characters, but has {len(title)}")
    check_window_settings(cast(WindowSettings, {name: value for name, value in given.items() if name != "title"}))
    return given
