"""What the adapters are told of conversations that they make."""

from __future__ import annotations

from typing import Any

from chatmemory.core.serialization.storable import require_storable
from chatmemory.core.window import check_kind, check_limit
from chatmemory.database.estimators import check_model
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = ["settings_of_new"]


def settings_of_new(
    *, window: str | None = None, limit: int | None = None, model: str | None = None, title: str | None = None
) -> dict[str, Any]:
    """The columns of a new conversation that are given; None is the default.

    Raises:
        ValueError: no such window, limit or model; or the title is too long.
    """
    if window is not None:
        check_kind(window)
    if limit is not None and check_limit(limit, "limit") > MAX_LIMIT:
        raise ValueError(f"limit must be at most {MAX_LIMIT}, but is: {limit}")
    if model is not None:
        check_model(model)
    if title is not None:
        longest = Conversation._meta.get_field("title").max_length or 0
        if len(require_storable(title, "title")) > longest:
            raise ValueError(f"title must have at most {longest} characters, but has {len(title)}")
    given = {"window": window, "limit": limit, "model": model, "title": title}
    return {name: value for name, value in given.items() if value is not None}
