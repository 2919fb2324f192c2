"""``python manage.py chatmemory_verify``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

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
            "--allow-gaps",
            action="store_true",
            default=None,
            help="evicted messages may be missing, because they were purged (always so with KEEP_HISTORY = False)",
        )

    def handle(self, *, repair: bool, allow_gaps: bool | None, **options: Any) -> None:
        found, repaired, missing = 0, 0, False
        for finding in verify(chosen_conversations(options), repair=repair, allow_gaps=allow_gaps):
            found += 1
            repaired += finding.repaired
            outcome = "" if not repair else " [repaired]" if finding.repaired else " [cannot be repaired]"
            self.stdout.write(f"{finding}{outcome}")
            missing = missing or finding.what == "missing messages"
        if missing:
            self.stderr.write("If the missing messages were purged, say --allow-gaps.")
        self.stderr.write(f"Findings: {found}, repaired: {repaired}." if repair else f"Findings: {found}.")
        if found > repaired:
            raise SystemExit(_UNREPAIRED)
