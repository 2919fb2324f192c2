"""``python manage.py chatmemory_replay``"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.management.output import Progress, table
from chatmemory.management.replays import add_replay, chosen_replay, title
from chatmemory.replaying import Replayed, replay

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
        add_replay(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object for each line")

    def handle(self, **options: Any) -> None:
        chosen, variants = chosen_replay(options)
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
        self._print_table([(title(variant), figures) for variant, figures in lines])

    def _print_table(self, lines: list[tuple[str, Replayed]]) -> None:
        first = lines[0][1]
        has_cost = first.priced_requests > 0
        rows: list[tuple[str, ...]] = [(*_COLUMNS, "cost") if has_cost else _COLUMNS]
        rows += [_cells(name, figures) + ((f"{figures.cost:,.2f}",) if has_cost else ()) for name, figures in lines]
        for line in table(rows):
            self.stdout.write(line)
        self.stdout.write(f"Conversations: {first.conversations:,}.")
        if first.missing:
            self.stdout.write(f"Messages that are deleted, so that nothing is known of them: {first.missing:,}.")
        if has_cost and first.priced_requests < first.requests:
            unpriced = first.requests - first.priced_requests
            self.stdout.write(f"Requests without a cost, because PRICES does not name their model: {unpriced:,}.")


def _cells(name: str, figures: Replayed) -> tuple[str, ...]:
    return (
        name,
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
