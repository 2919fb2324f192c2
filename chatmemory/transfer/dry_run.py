"""The record of a dry run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

__all__ = ["DryRun"]


@dataclass
class DryRun:
    """The conversations that a dry run would have written so far, so that one that comes twice is found."""

    marks: dict[tuple[Any, str], dict[str, Any]] = field(default_factory=dict)
    """The notes of imports from other programs, by the owner's primary key and the memory ID."""

    restored: dict[UUID, bytes] = field(default_factory=dict)
    """Digests of the lines of restored conversations, by primary key."""

    memory_ids: set[tuple[Any, str]] = field(default_factory=set)
    """The owners' primary keys and the memory IDs of restored conversations."""
