"""The arguments of commands that replay conversations with several windows."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from itertools import product
from typing import Any, cast

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet
from django.utils import timezone

from chatmemory.management.arguments import add_choice, add_window_settings, chosen_conversations
from chatmemory.models import Conversation, WindowSettings
from chatmemory.replaying import REPLAYED

_AS_IT_WAS = "as it was"
_MOST_VARIANTS = 20
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def add_replay(parser: CommandParser) -> None:
    """Add the options that choose conversations and windows; ``chosen_replay`` reads them."""
    add_window_settings(parser, "the windows to replay with", REPLAYED, many=True)
    parser.add_argument("--since", type=_duration, metavar="TIME", help="only conversations active in this time: 30d")
    add_choice(parser)


def chosen_replay(options: dict[str, Any]) -> tuple[QuerySet[Conversation], list[WindowSettings]]:
    """Return the conversations and the settings of all windows that the options choose.

    Raises:
        CommandError: there is no such database, user or conversation, or there are too many windows.
    """
    chosen = chosen_conversations(options)
    if options["since"] is not None:
        chosen = chosen.filter(updated_at__gte=timezone.now() - options["since"])
    return chosen, _variants(options)


def _duration(text: str) -> timedelta:
    """Return a time such as ``30d``.

    Raises:
        argparse.ArgumentTypeError: it is no number of hours, days or weeks, or more than the calendar has.
    """
    found = re.fullmatch("([1-9][0-9]{0,8})([hdw])", text)
    try:
        span = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
        if span is not None and timezone.now() - span:
            return span
    except OverflowError:
        pass
    raise argparse.ArgumentTypeError(f"must be a time such as 12h, 30d or 8w, but is: {text!r:.100}")


def _variants(options: dict[str, Any]) -> list[WindowSettings]:
    """Return the settings of all combinations; none if no option names a setting.

    Raises:
        CommandError: they are too many.
    """
    given = {name: options[name] for name in REPLAYED if options[name] is not None}
    values = [value if isinstance(value, list) else [value] for value in given.values()]
    variants = [dict(zip(given, combination, strict=True)) for combination in product(*values)] if given else []
    if len(variants) > _MOST_VARIANTS:
        raise CommandError(
            f"{len(variants)} combinations are too many; give values that make {_MOST_VARIANTS} at most."
        )
    return cast(list[WindowSettings], variants)


def title(variant: WindowSettings | None) -> str:
    """Return the name of a variant in a table."""
    if variant is None:
        return _AS_IT_WAS
    return ", ".join(_option(name, value) for name, value in variant.items())


def _option(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    return f"{words} {value}" if isinstance(value, str) else f"{words} {value:,}"
