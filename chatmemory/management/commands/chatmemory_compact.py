"""``python manage.py chatmemory_compact``"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.compaction import Compacted, UnusableSummaryError, compact_due
from chatmemory.database.operations.compact import due_conversations
from chatmemory.database.reading import on_primary
from chatmemory.management.arguments import add_choice, chosen_conversations, percentage, positive
from chatmemory.management.output import Progress

_SOME_FAILED = 1


class Command(BaseCommand):
    """The command. Several may run at once: each conversation is summarised by one of them."""

    help = (
        "Lets the function of the setting SUMMARIZER write the summaries that are due: in conversations with a "
        "compact_at, when it is reached, or when the window has evicted messages that no summary covers. A "
        "conversation in which it failed stays as it is, and is tried again after 1, 5, then 30 minutes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--due", action="store_true", required=True, help="where a summary is due (required)")
        parser.add_argument("--limit", type=positive, metavar="N", help="the most conversations to summarise")
        parser.add_argument(
            "--keep",
            type=percentage,
            metavar="PERCENT",
            help="the percent of a window's limit that stays as it is, in whole turns (default: the conversation's)",
        )
        add_choice(parser)
        parser.add_argument("--dry-run", action="store_true", help="print what is due; ask nobody and write nothing")

    def handle(self, *, limit: int | None, keep: int | None, dry_run: bool, **options: Any) -> None:
        chosen = chosen_conversations(options)
        try:
            accounts = compact_due(chosen, limit=limit, keep=keep, dry_run=dry_run)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        done = failed = 0

        def account() -> str:
            return f"conversations: {done}, failed: {failed}"

        progress = Progress(self.stderr, account)
        whole = due_conversations(on_primary(chosen)).count() if self.stderr.isatty() else 0
        for seen, one in enumerate(accounts, 1):
            done += bool(one.change or one.plan)
            if one.error is not None:
                failed += 1
                progress.clear()
                self.stderr.write(f"{one.conversation.pk}: {_problem(one.error)} [left as it was]")
            elif one.plan is not None:
                progress.clear()
                self.stdout.write(_due(one))
            progress.show(seen, min(whole, limit or whole))
        progress.clear()
        self.stdout.write(f"{'Would summarise' if dry_run else 'Summarised'} {account()}.")
        if failed:
            raise SystemExit(_SOME_FAILED)


def _due(account: Compacted) -> str:
    plan = account.plan
    assert plan is not None
    return f"{account.conversation.pk}: messages: {len(plan.messages)}, tokens: {plan.tokens}"


def _problem(error: Exception) -> str:
    """Return what failed. The text of another's error may quote the conversation, so only its class is named."""
    return str(error) if isinstance(error, UnusableSummaryError) else type(error).__name__
