"""``python manage.py chatmemory_index``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Sum

from chatmemory.conf import setting
from chatmemory.contrib.search import indexing
from chatmemory.contrib.search.checking import wrong_documents
from chatmemory.database.reading import pages
from chatmemory.management.arguments import add_choice, chosen_conversations
from chatmemory.management.output import Progress

_WRONG = 1


class Command(BaseCommand):
    """The command. If it is interrupted, another run continues."""

    help = (
        "Indexes the messages that are not in the search index yet. With --check, nothing is written: the command "
        "prints what is missing or wrong, and exits with 1 if anything is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_choice(parser)
        parser.add_argument("--check", action="store_true", help="compare the index with the messages; write nothing")
        parser.add_argument("--rebuild", action="store_true", help="delete the index of each conversation first")

    def handle(self, *, check: bool, rebuild: bool, **options: Any) -> None:
        if check and rebuild:
            raise CommandError("--check: writes nothing; use it without --rebuild.")
        chosen = chosen_conversations(options)
        if check:
            self._check(chosen)
            return
        if not setting("KEEP_HISTORY"):
            raise CommandError("KEEP_HISTORY is False: without a history there is nothing to index.")
        whole = chosen.aggregate(sum=Sum("next_position"))["sum"] or 0
        seen = conversations = messages = 0
        progress = Progress(self.stderr, lambda: f"conversations: {conversations}, messages: {messages}")
        for page in pages(chosen):
            for conversation in page:
                if rebuild:
                    indexing.rebuild(conversation)
                before = messages
                for count in indexing.index(conversation):
                    messages += count
                    progress.show(seen + messages - before, whole)
                conversations += messages > before
                seen += conversation.next_position
        progress.clear()
        self.stdout.write(f"Indexed conversations: {conversations}, messages: {messages}.")

    def _check(self, chosen: Any) -> None:
        found = 0
        for finding in wrong_documents(chosen, repair=False):
            found += 1
            self.stdout.write(str(finding))
        self.stderr.write(f"Findings: {found}.")
        if found:
            raise SystemExit(_WRONG)
