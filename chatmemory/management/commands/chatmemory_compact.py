"""``python manage.py chatmemory_compact``"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.compaction import (
    Compacted,
    CompactionPlan,
    Summarizer,
    SummarizerTimeoutError,
    UnusableSummaryError,
    compact_due,
    project_summarizer,
)
from chatmemory.conf import setting
from chatmemory.core.summaries import requests_of
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
        parser.add_argument("--limit", type=positive, metavar="N", help="the most summaries to make")
        parser.add_argument(
            "--keep",
            type=percentage,
            metavar="PERCENT",
            help="the percent of a window's limit that stays as it is, in whole turns (default: the conversation's)",
        )
        add_choice(parser)
        parser.add_argument("--dry-run", action="store_true", help="print what it takes; ask nobody, write nothing")

    def handle(self, *, limit: int | None, keep: int | None, dry_run: bool, **options: Any) -> None:
        chosen = chosen_conversations(options)
        try:
            accounts = compact_due(chosen, limit=limit, keep=keep, dry_run=dry_run)
            summarizer = project_summarizer() if dry_run and setting("SUMMARIZER") else None
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        done = failed = 0
        work = _Work()

        def account() -> str:
            return f"conversations: {done}, failed: {failed}"

        progress = Progress(self.stderr, account)
        whole = due_conversations(on_primary(chosen)).count() if self.stderr.isatty() else 0
        for seen, (conversation, results) in enumerate(groupby(accounts, key=lambda one: one.conversation), 1):
            own = _Work()
            for one in results:
                if one.error is not None:
                    failed += 1
                    progress.clear()
                    self.stderr.write(f"{conversation.pk}: {_problem(one.error)} [{own.left()}]")
                elif one.change is not None:
                    own.note_summary(one)
                    if own.is_long:
                        progress.clear()
                        self.stdout.write(f"{conversation.pk}: summaries: {own.summaries}, {own.left()}")
                elif one.plan is not None:
                    own.note_plan(one.plan, summarizer)
            done += bool(own.summaries)
            work += own
            progress.show(seen, min(whole, limit or whole))
            if dry_run and own.summaries:
                progress.clear()
                self.stdout.write(f"{conversation.pk}: {own.expected()}")
        progress.clear()
        in_all = f"{account()}, {work.expected()}" if dry_run else account()
        self.stdout.write(f"{'Would summarise' if dry_run else 'Summarised'} {in_all}.")
        if failed:
            raise SystemExit(_SOME_FAILED)


@dataclass
class _Work:
    """The work of a conversation, or of all: the progress, and for a dry run the expected work."""

    summaries: int = 0
    messages_left: int = 0
    tokens_left: int = 0
    is_long: bool = False
    """Whether one call of the summarizer does not take all."""
    messages: int = 0
    tokens: int = 0
    """The tokens that the summarizer reads of the messages, without its instructions and the summary so far."""
    calls: int = 0

    def note_summary(self, one: Compacted) -> None:
        self.summaries += 1
        self.messages_left, self.tokens_left = one.left
        self.is_long = self.is_long or self.messages_left > 0

    def note_plan(self, plan: CompactionPlan, summarizer: Summarizer | None) -> None:
        requests = requests_of(summarizer, plan.messages) or [plan.tokens - plan.previous_tokens]
        self.summaries += 1
        self.messages += len(plan.messages)
        self.tokens += sum(requests)
        self.calls += len(requests)

    def __iadd__(self, other: _Work) -> _Work:
        self.messages += other.messages
        self.tokens += other.tokens
        self.calls += other.calls
        return self

    def left(self) -> str:
        if not self.summaries:
            return "left as it was"
        return f"messages left: {self.messages_left}, tokens left: {self.tokens_left}"

    def expected(self) -> str:
        return f"messages: {self.messages}, model calls: {self.calls}, tokens: {self.tokens}"


def _problem(error: Exception) -> str:
    """Return what failed. The text of another's error may quote the conversation, so only its class is named."""
    is_own = isinstance(error, (UnusableSummaryError, SummarizerTimeoutError))
    return str(error) if is_own else type(error).__name__
