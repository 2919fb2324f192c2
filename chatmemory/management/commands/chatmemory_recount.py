"""``python manage.py chatmemory_recount``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.database.stored_windows import CUSTOM
from chatmemory.management.arguments import add_choice, chosen_conversations, positive
from chatmemory.management.output import Progress
from chatmemory.recounting import Recounted, recount

_SOME_LEFT = 1


class Command(BaseCommand):
    """The command. If it is interrupted, another run continues with the conversations that have another model."""

    help = (
        "Counts the tokens of all messages again. With --model, conversations have that model from now on; without it, "
        "each keeps its own. Messages that no longer fit a window of tokens are evicted. Conversations that an "
        "estimator of the project's own counts are left out, unless --from names it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", metavar="NAME", help="the model whose tokens are counted from now on")
        parser.add_argument("--from", dest="old", metavar="NAME", help="only conversations that have this model")
        add_choice(parser)
        parser.add_argument(
            "--batch-size",
            type=positive,
            default=500,
            help="evicted messages to count in one transaction (default: 500)",
        )
        parser.add_argument("--dry-run", action="store_true", help="print how many would be counted; write nothing")

    def handle(self, *, model: str | None, old: str | None, batch_size: int, dry_run: bool, **options: Any) -> None:
        chosen = chosen_conversations(options)
        if old is not None:
            chosen = chosen.filter(model=old)
        elif model is not None and options["conversation"] is None:
            # Conversations that the project's own estimator counts must be chosen by --from.
            chosen = chosen.exclude(model=model).exclude(model__startswith=CUSTOM)
        try:
            steps = recount(chosen, model=model, batch_size=batch_size, dry_run=dry_run)
        except ValueError as error:
            raise CommandError(f"--model: {error}") from None
        done, failed = Recounted(), 0
        progress = Progress(self.stderr, lambda: _account(done))
        for step in steps:
            done += step
            if step.problem:
                failed += 1
                progress.clear()
                self.stderr.write(f"{step.problem} [left as it was]")
            progress.show()
        progress.clear()
        evicted = "" if dry_run else f", evicted: {done.evicted}"
        self.stdout.write(f"{'Would count' if dry_run else 'Counted'} {_account(done)}{evicted}.")
        if failed:
            raise SystemExit(_SOME_LEFT)


def _account(done: Recounted) -> str:
    return f"conversations: {done.conversations}, messages: {done.messages}"
