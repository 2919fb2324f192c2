"""The attributes of an object, restored if the transaction that changed them is rolled back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from django.db import connections, transaction

__all__ = ["restore_on_rollback"]


def restore_on_rollback(instance: object, names: Iterable[str], database: str) -> None:
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
    """The attributes before a change, as a callback for ``on_commit()``, for as long as the object is in use.

    After the commit Django calls it, and it forgets the values. At a rollback Django drops it uncalled; nothing else
    refers to it, so ``__del__`` restores the values at once.
    """

    __slots__ = ("_instance", "_missing", "_values")

    def __init__(self, instance: object, values: dict[str, Any], missing: list[str]) -> None:
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
