"""The owner of a conversation."""

from __future__ import annotations

from typing import Any

__all__ = ["require_owner"]


def require_owner(owner: Any) -> Any:
    """``owner``, a saved user or None for nobody.

    Raises:
        ValueError: an anonymous or unsaved user, which would silently share the conversations of nobody.
    """
    if owner is not None and (getattr(owner, "pk", None) is None or owner._state.adding):
        raise ValueError(f"owner must be a saved user, or None for nobody, but is: {owner!r}")
    return owner
