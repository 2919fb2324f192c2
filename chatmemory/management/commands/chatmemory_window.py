"""``python manage.py chatmemory_window``"""

from __future__ import annotations

from typing import Any, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.database.reading import on_primary, pages
from chatmemory.database.stored_windows import check_window_settings
from chatmemory.management.arguments import add_choice, add_preset, add_window_settings, chosen_conversations
from chatmemory.management.output import Progress
from chatmemory.models import WINDOW_SETTINGS, Conversation, WindowSettings

_SOME_LEFT = 1


class Command(BaseCommand):
    """The command. Each conversation is changed in a transaction of its own, so it may be interrupted and run again."""

    help = (
        "Sets the window of conversations that exist, by a preset, by single settings, or both. What no longer fits is "
        "evicted; --dry-run says how much that is. A conversation whose pinned messages would have too little room "
        "stays as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_preset(parser)
        add_window_settings(parser, "settings", WINDOW_SETTINGS)
        add_choice(parser)
        parser.add_argument("--dry-run", action="store_true", help="print what would be evicted; write nothing")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        names = ("preset", *WINDOW_SETTINGS)
        given = {name: options[name] for name in names if options[name] is not None}
        if not given:
            raise CommandError("Give --preset or a setting, such as --preset chat.")
        try:
            settings = check_window_settings(cast(WindowSettings, given))
        except ValueError as error:
            raise CommandError(str(error)) from None
        done = evicted = failed = 0

        def account() -> str:
            return f"conversations: {done}, evicted messages: {evicted}"

        progress = Progress(self.stderr, account)
        for page in pages(on_primary(chosen_conversations(options))):
            for conversation in page:
                try:
                    evicted += _set(conversation, settings, dry_run)
                    done += 1
                except Conversation.DoesNotExist:
                    continue
                except ValueError as error:
                    failed += 1
                    progress.clear()
                    self.stderr.write(f"{conversation.pk}: {error} [left as it was]")
                progress.show()
        progress.clear()
        self.stdout.write(f"{'Would set' if dry_run else 'Set'} {account()}.")
        if failed:
            raise SystemExit(_SOME_LEFT)


def _set(conversation: Conversation, settings: WindowSettings, dry_run: bool) -> int:
    """Set a window, or only try it, and return the number of messages that leave."""
    if dry_run:
        return len(conversation.memory.try_window(**settings).evicted)
    return len(conversation.memory.set_window(**settings).evicted)
