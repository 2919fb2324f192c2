"""The rows of the hot statements, as drivers return them, and the objects made of them."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

from django.db import connections, models

from chatmemory.models import Message

__all__ = [
    "COLUMNS",
    "Row",
    "instance_of",
    "message_columns",
    "message_of",
    "place_columns",
    "primary_key",
    "status_columns",
    "text_columns",
    "token_count",
]

Row = tuple[Any, ...]
"""A message with all its columns, as the driver returned it."""

COLUMNS = [field.attname for field in Message._meta.concrete_fields]

message_columns = itemgetter(*map(COLUMNS.index, ("type", "text", "payload")))
"""Returns type, text and payload of a row."""

token_count = itemgetter(COLUMNS.index("token_count"))
"""Returns the tokens of a row."""

status_columns = itemgetter(*map(COLUMNS.index, ("origin", "pins")))
"""Returns origin and pins of a row."""

place_columns = itemgetter(*map(COLUMNS.index, ("position", "memory_order")))
"""Returns position and memory order of a row."""

text_columns = itemgetter(*map(COLUMNS.index, ("text", "payload", "native")))
"""Returns text, payload and native form of a row: the columns that may be long."""

primary_key = itemgetter(COLUMNS.index("id"))
"""Returns the primary key of a row."""

M = TypeVar("M", bound=models.Model)


def message_of(row: Row, database: str) -> Message:
    """Return the message of a row as an object."""
    return instance_of(Message, row, database)


@cache
def _converted(model: type[models.Model]) -> tuple[tuple[int, Any], ...]:
    """Return the columns that a driver may return in another type than the field's, each with its index."""
    plain = (models.CharField, models.TextField, models.IntegerField)
    return tuple(
        (index, field.get_col(model._meta.db_table))
        for index, field in enumerate(model._meta.concrete_fields)
        if not isinstance(field, plain)
    )


def instance_of(model: type[M], row: Row, database: str) -> M:
    """Return the object of a whole row of ``model``."""
    connection = connections[database]
    values = list(row)
    for index, column in _converted(model):
        converters = connection.ops.get_db_converters(column) + column.output_field.get_db_converters(connection)
        for convert in converters:
            values[index] = convert(values[index], column, connection)
    return model.from_db(database, [field.attname for field in model._meta.concrete_fields], values)
