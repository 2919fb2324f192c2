"""Who may use the API: the project's own classes, then each only what is theirs."""

from __future__ import annotations

from typing import Any

from django.utils.module_loading import import_string

from chatmemory.conf import setting

__all__ = ["permission_classes"]


def permission_classes() -> list[Any]:
    """The classes that ``CHATMEMORY["PERMISSION_CLASSES"]`` names."""
    return [import_string(path) for path in setting("PERMISSION_CLASSES")]
