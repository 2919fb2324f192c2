"""``python manage.py chatmemory_purge``"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet
from django.utils import timezone

from chatmemory.management.arguments import add_choice, chosen_conversations, positive
from chatmemory.management.output import Progress
from chatmemory.models import Conversation
from chatmemory.retention import Erased, purge_conversations, purge_evicted, purge_keys


class Command(BaseCommand):
    """The command. If it is interrupted, another run continues."""

    help = (
        "Erases conversations that had no activity for DAYS days. With --evicted-only or --keys or both no "
        "conversation is erased: only messages that were evicted, or keys that were stored, more than DAYS days ago. "
        "Retained messages are erased only with their conversation."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than", type=positive, required=True, metavar="DAYS", help="the number of days")
        add_choice(parser, conversation=False)
        parser.add_argument(
            "--evicted-only", action="store_true", help="erase only messages that were evicted more than DAYS days ago"
        )
        parser.add_argument(
            "--keys", action="store_true", help="erase only idempotency keys that were stored more than DAYS days ago"
        )
        parser.add_argument(
            "--batch-size",
            type=positive,
            default=1000,
            help="messages or keys to erase in one transaction (default: 1000)",
        )
        parser.add_argument("--dry-run", action="store_true", help="print what would be erased; erase nothing")

    def handle(self, *, older_than: int, dry_run: bool, **options: Any) -> None:
        try:
            before = timezone.now() - timedelta(days=older_than)
        except OverflowError:
            raise CommandError(
                f"--older-than: {older_than} days ago is before the first year of the calendar."
            ) from None
        done = Erased()
        progress = Progress(self.stderr, lambda: _account(done))
        for step in _steps(before, chosen_conversations(options), dry_run, options):
            done += step
            progress.show()
        progress.clear()
        self.stdout.write(f"{'Would erase' if dry_run else 'Erased'} {_account(done)}.")
        if done.held:
            what = "with evicted messages that stay" if options["evicted_only"] else "that stay"
            self.stdout.write(f"Conversations {what} because other objects refer to them: {done.held}.")


def _steps(
    before: datetime, conversations: QuerySet[Conversation], dry_run: bool, options: dict[str, Any]
) -> Iterator[Erased]:
    size = options["batch_size"]
    if options["evicted_only"]:
        yield from purge_evicted(before, conversations, batch_size=size, dry_run=dry_run)
    if options["keys"]:
        # Keys of a whole database are found without its conversations.
        whose = None if options["owner"] is None and options["database"] is None else conversations
        yield from purge_keys(before, whose, batch_size=size, dry_run=dry_run)
    if not options["evicted_only"] and not options["keys"]:
        yield from purge_conversations(before, conversations, dry_run=dry_run)


def _account(done: Erased) -> str:
    return f"conversations: {done.conversations}, messages: {done.messages}, idempotency keys: {done.keys}"
