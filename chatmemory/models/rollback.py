"""The attributes of an object, restored if the transaction that changed them is rolled back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connections, models, transaction

__all__ = ["restore_on_rollback"]


def restore_on_rollback(instance: models.Model, names: Iterable[str], database: str) -> None:
    """Restore attributes to their present values if the transaction, or savepoint, that is open is rolled back.

    Args:
        instance: the object.
        names: the names of the attributes. One that is not set now is removed again.
        database: the alias of the database. Outside of transactions nothing happens.
    """
    if connections[database].in_atomic_block:
        values = {name: vars(instance)[name] for name in names if name in vars(instance)}
        missing = [name for name in names if name not in values]
        transaction.on_commit(_Before(instance, values, missing), using=database)


class _Before:
    """The attributes before a change, as a callback for ``on_commit()``.

    After the commit Django calls it, and it forgets the values. At a rollback Django drops it uncalled; nothing else
    refers to it, so ``__del__`` restores the values at once.
    """

    def __init__(self, instance: models.Model, values: dict[str, Any], missing: list[str]) -> None:
        self._instance = instance
        self._values = values
        self._missing = missing

    def __call__(self) -> None:
        self._values, self._missing = {}, []

    def __del__(self) -> None:
        vars(self._instance).update(self._values)
        for name in self._missing:
            vars(self._instance).pop(name, None)
