"""Whether the tests run with names in a table of their own, and what that adds to the statements of an operation."""

from __future__ import annotations

from django.apps import apps

__all__ = ["LOCATING", "NAMES_ARE_KEPT"]

NAMES_ARE_KEPT = apps.is_installed("chatmemory.contrib.citus")

LOCATING = int(NAMES_ARE_KEPT)
"""The statements by which a conversation is looked up by its name, before others name it by its primary key."""
