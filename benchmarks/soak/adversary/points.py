"""The points of an act at which something can go wrong: statements, commits, changes of autocommit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["AUTOCOMMIT", "COMMIT", "Meet", "watched"]

COMMIT = "COMMIT"
"""The name of a commit among the points. Other names are the texts of statements."""

AUTOCOMMIT = "SET autocommit"
"""The name of MariaDB's statement before and after a transaction, which the driver sends and Django's cursor never
sees."""

Meet = Callable[[str, Callable[[], Any]], Any]
"""A function that is called at a point with its name and a function that passes it; returns what passing returns."""


@contextmanager
def watched(meet: Meet) -> Iterator[None]:
    """Call ``meet`` at each point that this thread's connection passes."""
    from django.db import connection

    def statement(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        return meet(sql, lambda: execute(sql, params, many, context))

    methods = {"_commit": COMMIT}
    if connection.vendor == "mysql":
        methods["_set_autocommit"] = AUTOCOMMIT
    for method, name in methods.items():
        setattr(connection, method, _meeting(meet, name, getattr(connection, method)))
    try:
        with connection.execute_wrapper(statement):
            yield
    finally:
        for method in methods:
            delattr(connection, method)


def _meeting(meet: Meet, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: meet(name, lambda: method(*given))
