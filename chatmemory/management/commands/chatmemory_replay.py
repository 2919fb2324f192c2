"""``python manage.py chatmemory_replay``"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from datetime import timedelta
from itertools import product
from typing import Any, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from chatmemory.database.operations.replay import REPLAYED
from chatmemory.management.arguments import add_choice, add_window_settings, chosen_conversations
from chatmemory.management.output import Progress
from chatmemory.models import WindowSettings
from chatmemory.replaying import Replayed, replay

_AS_IT_WAS = "as it was"
_MOST_VARIANTS = 20
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_COLUMNS = ("window", "requests", "input tokens", "hits", "breaks", "evictions")


class Command(BaseCommand):
    """The command. It writes nothing to the database."""

    help = (
        "Prints how much of the requests to the model a provider's prompt cache may have had, as it was and with other "
        "windows: the share of the input with which the request before began, too (hits), the share of requests that "
        "do not begin with the whole request before (breaks), and, if PRICES is set, the cost of the input. Options "
        "with several values make a line for each combination."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_window_settings(parser, "the windows to replay with", REPLAYED, many=True)
        parser.add_argument(
            "--since", type=_duration, metavar="TIME", help="only conversations active in this time: 30d"
        )
        add_choice(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object for each line")

    def handle(self, *, since: timedelta | None, **options: Any) -> None:
        chosen = chosen_conversations(options)
        if since is not None:
            chosen = chosen.filter(updated_at__gte=timezone.now() - since)
        variants = _variants(options)
        total = [Replayed()] * (1 + len(variants))
        progress = Progress(self.stderr, lambda: f"conversations: {total[0].conversations}")
        try:
            for of_one in replay(chosen, [None, *variants]):
                total = [one + another for one, another in zip(total, of_one, strict=True)]
                progress.show()
        except ValueError as error:
            raise CommandError(str(error)) from None
        progress.clear()
        lines = list(zip([None, *variants], total, strict=True))
        if options["json"]:
            for variant, figures in lines:
                self.stdout.write(json.dumps({"window": variant, **_as_json(figures)}))
            return
        self._print_table([(_title(variant), figures) for variant, figures in lines])

    def _print_table(self, lines: list[tuple[str, Replayed]]) -> None:
        first = lines[0][1]
        has_cost = first.priced_requests > 0
        rows: list[tuple[str, ...]] = [(*_COLUMNS, "cost") if has_cost else _COLUMNS]
        rows += [_cells(title, figures) + ((f"{figures.cost:,.2f}",) if has_cost else ()) for title, figures in lines]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for name, *cells in rows:
            numbers = (f"  {cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
            self.stdout.write(f"{name:<{widths[0]}}{''.join(numbers)}")
        self.stdout.write(f"Conversations: {first.conversations:,}.")
        if first.missing:
            self.stdout.write(f"Messages that are deleted, so that nothing is known of them: {first.missing:,}.")
        if has_cost and first.priced_requests < first.requests:
            unpriced = first.requests - first.priced_requests
            self.stdout.write(f"Requests without a cost, because PRICES does not name their model: {unpriced:,}.")


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


def _title(variant: WindowSettings | None) -> str:
    if variant is None:
        return _AS_IT_WAS
    return ", ".join(_option(name, value) for name, value in variant.items())


def _option(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    return f"{words} {value}" if isinstance(value, str) else f"{words} {value:,}"


def _cells(title: str, figures: Replayed) -> tuple[str, ...]:
    return (
        title,
        f"{figures.requests:,}",
        f"{figures.input_tokens:,}",
        f"{figures.hit_share:.1%}",
        f"{figures.break_share:.1%}",
        f"{figures.evictions:,}",
    )


def _as_json(figures: Replayed) -> dict[str, Any]:
    cost = float(figures.cost) if figures.priced_requests else None
    shares = {"hit_share": figures.hit_share, "break_share": figures.break_share}
    return {**asdict(figures), **shares, "cost": cost}
