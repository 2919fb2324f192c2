"""A text column that is compared character by character on every database."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

__all__ = ["ExactCharField", "exact_collation"]


def exact_collation(connection: BaseDatabaseWrapper) -> str | None:
    """Return the collation in which different texts are never equal; None where that is the database's default."""
    if connection.vendor != "mysql":
        return None
    return "utf8mb4_nopad_bin" if getattr(connection, "mysql_is_mariadb", False) else "utf8mb4_0900_bin"


class ExactCharField(models.CharField):  # type: ignore[type-arg]
    """A ``CharField`` for identifiers.

    MariaDB and MySQL by default take "a", "A", "á" and "a " for the same value, in look-ups and in unique
    constraints alike; this asks them for a collation that does not.
    """

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = super().db_parameters(connection)
        collation = exact_collation(connection)
        return parameters if collation is None else parameters | {"collation": collation}
