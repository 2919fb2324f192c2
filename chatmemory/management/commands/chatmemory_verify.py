"""``python manage.py chatmemory_verify``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.management.arguments import add_choice, chosen_conversations
from chatmemory.verification import verify

_UNREPAIRED = 1


class Command(BaseCommand):
    """The command. It prints a line for each finding, and exits with 1 if something is still wrong."""

    help = (
        "Checks every counter, position, version and order of conversations against their messages. "
        "Exits with 1 if something is wrong, with --repair if something is still wrong."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_choice(parser)
        parser.add_argument("--repair", action="store_true", help="correct wrong counters, and what apps can correct")
        parser.add_argument(
            "--accept-missing",
            action="store_true",
            help="with --repair: count missing messages as deleted on purpose, so that they are not found again",
        )

    def handle(self, *, repair: bool, accept_missing: bool, **options: Any) -> None:
        if accept_missing and not repair:
            raise CommandError("--accept-missing: is for a repair; use it with --repair.")
        found, repaired, missing = 0, 0, False
        for finding in verify(chosen_conversations(options), repair=repair, accept_missing=accept_missing):
            found += 1
            repaired += finding.repaired
            outcome = "" if not repair else " [repaired]" if finding.repaired else " [cannot be repaired]"
            self.stdout.write(f"{finding}{outcome}")
            missing = missing or (finding.what == "missing messages" and not finding.repaired)
        if missing:
            self.stderr.write("If the missing messages were deleted on purpose, run it with --repair --accept-missing.")
        self.stderr.write(f"Findings: {found}, repaired: {repaired}." if repair else f"Findings: {found}.")
        if found > repaired:
            raise SystemExit(_UNREPAIRED)
