"""The style sheets and scripts of the admin's pages: one for each thing that they draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.forms.widgets import Script

__all__ = ["SCRIPTS", "STYLES"]

_DRAWN = (
    "stock",
    "page",
    "conversation",
    "tools",
    "gauge",
    "lists",
    "messages",
    "markdown",
    "rows",
    "summaries",
    "strip",
    "forms",
    "window",
    "past",
    "dashboard",
)

STYLES: dict[str, Sequence[str]] = {
    "all": [
        "chatmemory/roles.css",
        "chatmemory/chat/markdown.css",
        *(f"chatmemory/admin/{name}.css" for name in _DRAWN),
    ],
}
"""The sheets, as a ``Media`` class has them, in their order: a later one may depend on an earlier one."""

_MODULES = ("menus", "markdown", "strip", "dashboard")

# Django's stubs know only addresses in a "Media".
SCRIPTS: Sequence[Any] = [Script(f"chatmemory/admin/{name}.js", type="module") for name in _MODULES]
"""The scripts, as a ``Media`` class has them. Without them the pages say all that they say."""
