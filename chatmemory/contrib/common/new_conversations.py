"""The settings of the conversations that adapters create."""

from __future__ import annotations

from typing import Any, Unpack

from chatmemory.core.serialization.storable import require_storable
from chatmemory.core.window import check_kind, check_limit
from chatmemory.database.estimators import check_model
from chatmemory.models import MAX_LIMIT, Conversation, WindowSettings

__all__ = ["ConversationSettings", "settings_of_new"]


class ConversationSettings(WindowSettings, total=False):
    """Keyword arguments of every adapter, for a conversation that it creates. None is the project's default.

    A conversation that exists keeps its own settings.
    """

    title: str | None
    """The title, with at most 255 characters."""


def settings_of_new(**settings: Unpack[ConversationSettings]) -> dict[str, Any]:
    """Return the columns of a new conversation: ``settings`` without those that are None.

    Raises:
        TypeError: a name that is not in :class:`ConversationSettings`.
        ValueError: no such window, limit or model; or the title is too long.
    """
    known = ConversationSettings.__annotations__
    for name in settings:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; expected one of {', '.join(known)}")
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    for name, value in given.items():
        _check(name, value)
    return given


def _check(name: str, value: Any) -> None:
    match name:
        case "window":
            check_kind(value)
        case "limit":
            if check_limit(value, name) > MAX_LIMIT:
                raise ValueError(f"limit must be at most {MAX_LIMIT}, but is: {value}")
        case "model":
            check_model(value)
        case "always_keep_system_message_first":
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, but is: {value!r}")
        case "title":
            longest = Conversation._meta.get_field("title").max_length or 0
            if len(require_storable(value, name)) > longest:
                raise ValueError(f"title must have at most {longest} characters, but has {len(value)}")
