"""Distribute the tables by the conversation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS

from chatmemory.contrib.citus.distribution import distribute


class Command(BaseCommand):
    """See ``chatmemory.contrib.citus.distribution.distribute``."""

    help = (
        "Distribute the tables of conversations over the nodes of Citus, in one transaction. What is stored is kept; "
        "nobody can write meanwhile. A second run changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--users",
            choices=["reference", "local"],
            default="reference",
            help="Copy users to every node (default), or leave them on the coordinator, without a foreign key.",
        )
        parser.add_argument("--shards", type=_shards, default=32, help="The number of shards of each table.")
        parser.add_argument(
            "--constraints-only", action="store_true", help="Only change constraints, on any PostgreSQL."
        )
        parser.add_argument("--dry-run", action="store_true", help="Do all, say what, and undo it.")
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="The alias of the coordinator's database.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            distribute(
                options["database"],
                users=options["users"],
                shards=options["shards"],
                constraints_only=options["constraints_only"],
                dry_run=options["dry_run"],
                tell=self.stdout.write,
            )
        except RuntimeError as error:
            raise CommandError(str(error)) from error
        if options["dry_run"]:
            self.stdout.write("Nothing was changed.")


def _shards(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number
