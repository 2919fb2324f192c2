"""Rows of the hot statements, as the drivers give them, and the messages and instances made of them."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

from django.db import connections, models

from chatmemory.models import Message

__all__ = ["Row", "message_columns", "message_of", "primary_key", "text_columns"]

Row = tuple[Any, ...]
"""A message with all its columns, as the driver gave it."""

COLUMNS = [field.attname for field in Message._meta.concrete_fields]

message_columns = itemgetter(*map(COLUMNS.index, ("type", "text", "payload", "token_count")))
"""Type, text, payload and tokens of a row."""

text_columns = itemgetter(*map(COLUMNS.index, ("text", "payload", "native")))
"""What of a row has no bound but that of a message."""

primary_key = itemgetter(COLUMNS.index("id"))
"""Of a row."""

M = TypeVar("M", bound=models.Model)


def message_of(row: Row, database: str) -> Message:
    """The object of a row."""
    return instance_of(Message, row, database)


@cache
def _converted(model: type[models.Model]) -> tuple[tuple[int, Any], ...]:
    """The columns that a driver may give in another type than the field's, and where they are."""
    plain = (models.CharField, models.TextField, models.IntegerField)
    return tuple(
        (index, field.get_col(model._meta.db_table))
        for index, field in enumerate(model._meta.concrete_fields)
        if not isinstance(field, plain)
    )


def instance_of(model: type[M], row: Row, database: str) -> M:
    connection = connections[database]
    values = list(row)
    for index, column in _converted(model):
        converters = connection.ops.get_db_converters(column) + column.output_field.get_db_converters(connection)
        for convert in converters:
            values[index] = convert(values[index], column, connection)
    return model.from_db(database, [field.attname for field in model._meta.concrete_fields], values)
