"""The tables and constraints of PostgreSQL's catalog."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

_COLUMNS = (
    "ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS part (number, place) "
    "JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place)"
)


class Catalog:
    """The catalog of one database."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection

    def primary_key(self, table: str) -> tuple[str, list[str]]:
        """Return the name of a table's primary key, and its columns."""
        [(name, columns)] = self._constraints(table, "p")
        return name, columns

    def uniques(self, table: str) -> dict[str, list[str]]:
        """Return the columns of a table's unique constraints, by their names."""
        return dict(self._constraints(table, "u"))

    def foreign_keys(self, table: str, to: str) -> dict[str, list[str]]:
        """Return the columns of the foreign keys from one table to another, by the names of the constraints."""
        return dict(self._constraints(table, "f", to))

    def has_citus(self) -> bool:
        """Return whether the extension is in the database."""
        return bool(self._rows("SELECT 1 FROM pg_extension WHERE extname = 'citus'"))

    def is_distributed(self, table: str) -> bool:
        """Return whether Citus has distributed a table, or made a reference table of it."""
        return bool(self._rows("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %s::regclass", table))

    def _constraints(self, table: str, kind: str, to: str | None = None) -> list[tuple[str, list[str]]]:
        sql = f"SELECT conname::text, {_COLUMNS} FROM pg_constraint WHERE conrelid = %s::regclass AND contype = %s"
        if to is None:
            return self._rows(f"{sql} ORDER BY 1", table, kind)
        return self._rows(f"{sql} AND confrelid = %s::regclass ORDER BY 1", table, kind, to)

    def _rows(self, sql: str, *params: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall())
