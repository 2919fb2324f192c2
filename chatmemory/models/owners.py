"""The owner of a conversation."""

from __future__ import annotations

from typing import Any

__all__ = ["require_owner"]


def require_owner(owner: Any) -> Any:
    """Return ``owner`` if it is a saved user, or None.

    Raises:
        ValueError: an anonymous or unsaved user, who would silently share the conversations without owner.
    """
    if owner is not None and (getattr(owner, "pk", None) is None or owner._state.adding):
        raise ValueError(f"owner must be a saved user, or None for nobody, but is: {owner!r}")
    return owner
