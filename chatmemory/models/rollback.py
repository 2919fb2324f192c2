"""Undo what a transaction set on an object, if the transaction is rolled back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from django.db import connections, models, transaction

__all__ = ["restore_on_rollback"]


def restore_on_rollback(instance: models.Model, names: Iterable[str], database: str) -> None:
    """Restore attributes to their present values if the transaction, or savepoint, that is open is rolled back.

    Args:
        instance: the object.
        names: of its attributes. One that it does not have now is deleted again.
        database: the alias. Outside of transactions nothing happens.
    """
    if connections[database].in_atomic_block:
        values = {name: vars(instance)[name] for name in names if name in vars(instance)}
        missing = [name for name in names if name not in values]
        transaction.on_commit(_Before(instance, values, missing), using=database)


class _Before:
    """The values of before, as long as somebody has the object: a transaction may save millions.

    Django calls it after the commit. At a rollback of its savepoint Django drops it uncalled, and it is deleted.
    """

    __slots__ = ("_instance", "_missing", "_values")

    def __init__(self, instance: models.Model, values: dict[str, Any], missing: list[str]) -> None:
        self._values = values
        self._missing = missing
        # Not a method of this object, which would refer to itself, and would not be deleted at once.
        self._instance = ref(instance, lambda _gone: values.clear())

    def __call__(self) -> None:
        self._values, self._missing = {}, []

    def __del__(self) -> None:
        instance = self._instance()
        if instance is None:
            return
        vars(instance).update(self._values)
        for name in self._missing:
            vars(instance).pop(name, None)
