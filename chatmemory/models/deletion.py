"""The deletion of rows together with their owner."""

from __future__ import annotations

from typing import Any

from django.db.models import ForeignKey
from django.db.models.deletion import Collector

__all__ = ["cascade"]


def cascade(collector: Collector, field: ForeignKey[Any, Any], rows: Any, using: str) -> None:
    """Delete the rows as ``CASCADE`` does, but never set the column to null first.

    Django's own sets such a column to null first where constraints cannot be deferred, as on MariaDB. For a moment the
    conversations would have no owner, and their memory IDs could collide with those of others without owner.
    """
    source = field.remote_field.model
    collector.collect(rows, source=source, source_attr=field.name, nullable=False, fail_on_restricted=False)
