"""``python manage.py chatmemory_verify``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.management.arguments import add_choice, chosen_conversations
from chatmemory.verification import verify

__all__ = ["Command"]

_UNREPAIRED = 1


class Command(BaseCommand):
    """One line for each finding; the exit code is 1 if something is wrong still."""

    help = (
        "Checks every counter, position, version and order of conversations against their messages. "
        "Exits with 1 if something is wrong, and with --repair if something is wrong still."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_choice(parser)
        parser.add_argument("--repair", action="store_true", help="set wrong counters right")
        parser.add_argument(
            "--accept-missing",
            action="store_true",
            help="with --repair: count missing messages as deleted on purpose, so that they are not found again",
        )

    def handle(self, *, repair: bool, accept_missing: bool, **options: Any) -> None:
        if accept_missing and not repair:
            raise CommandError("--accept-missing is for a repair: say --repair too.")
        found, repaired, missing = 0, 0, False
        for finding in verify(chosen_conversations(options), repair=repair, accept_missing=accept_missing):
            found += 1
            repaired += finding.repaired
            outcome = "" if not repair else " [repaired]" if finding.repaired else " [cannot be repaired]"
            self.stdout.write(f"{finding}{outcome}")
            missing = missing or (finding.what == "missing messages" and not finding.repaired)
        if missing:
            self.stderr.write("If they were deleted on purpose, by other hands, say --repair --accept-missing.")
        self.stderr.write(f"Findings: {found}, repaired: {repaired}." if repair else f"Findings: {found}.")
        if found > repaired:
            raise SystemExit(_UNREPAIRED)
