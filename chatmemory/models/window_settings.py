"""The columns that bound a memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import BigIntegerField, FloatField
from django.db.models.functions import Cast, Floor, Least
from django.utils.translation import gettext_lazy

from chatmemory.conf import default_limit, window_default
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.window import SETTINGS, Kind, check

MAX_LIMIT = 2_147_483_647  # the largest integer that every database stores

WINDOW_SETTINGS = tuple(SETTINGS)

NULLABLE = tuple(name for name, setting in SETTINGS.items() if setting.null)
"""The settings that may be None."""

FLAGS = tuple(name for name, setting in SETTINGS.items() if setting.kind is Kind.FLAG)


_HALF = Floor(Cast("limit", FloatField()) / 2, output_field=BigIntegerField())  # integers divide otherwise on MariaDB

RESERVED = Least(Cast("reserve", BigIntegerField()), _HALF)
"""The expression for ``Window.reserved`` of a window of tokens."""


class DefaultLimit(int):
    """The default limit of an unsaved row. When the row is saved, its window determines the default limit again."""


def column(name: str) -> dict[str, Any]:
    """Return the arguments of a setting's column, except ``null``, which type checkers must see."""
    setting = SETTINGS[name]
    arguments: dict[str, Any] = {
        "verbose_name": gettext_lazy(setting.label),
        "help_text": gettext_lazy(setting.help),
        "default": default_limit if name == "limit" else partial(window_default, name),
    }
    match setting.kind:
        case Kind.CHOICE:
            choices = [(value, gettext_lazy(label)) for value, label in setting.choices.items()]
            arguments |= {"choices": choices, "max_length": max(map(len, setting.choices))}
        case Kind.TEXT:
            arguments["max_length"] = setting.most
        case Kind.NUMBER | Kind.PERCENT:
            bounds = [MinValueValidator(setting.least), MaxValueValidator(setting.most or MAX_LIMIT)]
            arguments |= {"validators": bounds, "blank": setting.null}
    return arguments


WINDOWS = column("window")["choices"]


def check_stored(name: str, value: Any) -> None:
    """Raise an error if the column of a setting cannot store a value.

    Raises:
        InvalidValueError: the value cannot be stored.
    """
    check(name, value)
    if SETTINGS[name].kind is Kind.NUMBER and value is not None and value > MAX_LIMIT:
        raise InvalidValueError(
            "%(name)s must be at most %(most)s, but is: %(value)s",
            code="max_value",
            name=name,
            most=MAX_LIMIT,
            value=value,
        )
