"""Rows that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction


@contextmanager
def kept(django_db_blocker: Any) -> Iterator[None]:
    """What is written is there for the tests of a module, each of which is in a transaction inside of this one."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
