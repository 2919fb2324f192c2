"""Tables of other programs, read a page at a time through a database of ``DATABASES``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connections

from chatmemory.models.fields import exact_collation
from chatmemory.transfer.records import BadRecordError

__all__ = ["Row", "Table", "json_object"]

_ROWS = 1000

Row = dict[str, Any]
"""The values of a row by the names of their columns."""


class Table:
    """A table of another program."""

    def __init__(self, database: str, name: str) -> None:
        """
        Args:
            database: the alias of the database.
            name: the name of the table; another case is accepted if no table has exactly this name.

        Raises:
            BadRecordError: there is no such table.
        """
        self._connection = connections[database]
        with self._connection.cursor() as cursor:
            names = self._connection.introspection.table_names(cursor)
            known = name if name in names else next((one for one in names if one.lower() == name.lower()), None)
            if known is None:
                raise BadRecordError(f"{database}.{name}", "there is no such table; name another one with --table")
            described = self._connection.introspection.get_table_description(cursor, known)
        self.name = known
        self.place = f"{database}.{known}"
        self.columns = [column.name for column in described]
        self._collation = exact_collation(self._connection)
        type_of = self._connection.introspection.get_field_type
        self._inexact = {
            one.name
            for one in described
            if self._collation is not None and type_of(one.type_code, one) in ("CharField", "TextField")
        }

    def require(self, *columns: str) -> None:
        """Require that the table has ``columns``.

        Raises:
            BadRecordError: a column is missing.
        """
        for column in columns:
            if column not in self.columns:
                raise BadRecordError(self.place, f"has no column {column}, so it is not what this format reads")

    def referenced_table(self, column: str) -> str | None:
        """Return the name of the table that a foreign key of ``column`` refers to; None without one."""
        with self._connection.cursor() as cursor:
            relations = self._connection.introspection.get_relations(cursor, self.name)
        return relations[column][1] if column in relations else None

    def count_nulls(self, column: str) -> int:
        """Return the number of rows that have no value in ``column``."""
        quote = self._connection.ops.quote_name
        sql = f"SELECT COUNT(*) FROM {quote(self.name)} WHERE {quote(column)} IS NULL"
        return int(self._fetch(sql, [])[0][0])

    def rows(self, columns: Sequence[str], *keys: str) -> Iterator[Row]:
        """Yield all rows in the order of ``keys``, whose values are unique together and not null."""
        quote = self._connection.ops.quote_name
        read = list(dict.fromkeys([*keys, *columns]))
        exact = {key: self._exact(key) for key in keys}
        select = f"SELECT {', '.join(map(quote, read))} FROM {quote(self.name)}"
        there = " AND ".join(f"{quote(key)} IS NOT NULL" for key in keys)
        order = f"ORDER BY {', '.join(exact.values())} LIMIT {_ROWS}"
        # The rows that follow: a larger first key, or the same first key and a larger second one.
        later = " OR ".join(
            "(" + " AND ".join([*(f"{exact[same]} = %s" for same in keys[:index]), f"{exact[key]} > %s"]) + ")"
            for index, key in enumerate(keys)
        )
        last: list[Any] = []
        while True:
            parameters = [last[place] for index in range(len(keys)) for place in range(index + 1)] if last else []
            where = f"{there} AND ({later})" if last else there
            page = self._fetch(f"{select} WHERE {where} {order}", parameters)
            for row in page:
                yield dict(zip(read, row, strict=True))
            if len(page) < _ROWS:
                return
            last = list(page[-1][: len(keys)])

    def distinct(self, column: str) -> Iterator[Any]:
        """Yield the distinct values of a column, in order."""
        name, table = self._exact(column), self._connection.ops.quote_name(self.name)
        value = None
        while True:
            later = "" if value is None else f"AND {name} > %s"
            sql = f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL {later} ORDER BY {name} LIMIT {_ROWS}"
            page = self._fetch(sql, [] if value is None else [value])
            for (value,) in page:
                yield value
            if len(page) < _ROWS:
                return

    def where(self, columns: Sequence[str], column: str, values: Sequence[Any], *order: str) -> list[Row]:
        """Return all rows with one of ``values`` in a column, in the order of other columns."""
        quote = self._connection.ops.quote_name
        select = f"SELECT {', '.join(map(quote, columns))} FROM {quote(self.name)}"
        there = f"{self._exact(column)} IN ({', '.join(['%s'] * len(values))})"
        rows = self._fetch(f"{select} WHERE {there} ORDER BY {', '.join(map(quote, order))}", list(values))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _exact(self, column: str) -> str:
        """Return SQL for a column that compares texts exactly: "a" and "A" are different."""
        name = self._connection.ops.quote_name(column)
        return f"CONVERT({name} USING utf8mb4) COLLATE {self._collation}" if column in self._inexact else name

    def _fetch(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())


def json_object(place: str, value: Any) -> dict[str, Any]:
    """Return the JSON object in a column.

    Raises:
        BadRecordError: the value is not a JSON object.
    """
    try:
        data = json.loads(value) if isinstance(value, (str, bytes)) else value
    except (ValueError, RecursionError) as error:
        raise BadRecordError(place, f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise BadRecordError(place, "expected a JSON object")
    return data
