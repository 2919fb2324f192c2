"""The router that sends everything to one database at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["OneDatabase", "routed"]


class OneDatabase:
    """A router that sends everything to one database."""

    alias = "default"

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return self.alias

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return self.alias

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


@contextmanager
def routed() -> Iterator[OneDatabase]:
    """Use such a router, and yield it: its ``alias`` is where everything goes."""
    from django.test import override_settings

    router = OneDatabase()
    with override_settings(DATABASE_ROUTERS=[router]):
        yield router
