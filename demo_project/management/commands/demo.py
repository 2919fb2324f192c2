"""The command ``python manage.py demo``."""

from __future__ import annotations

import io
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import NoReverseMatch, reverse

from demo_project.chat.speakers import chosen_speaker
from demo_project.database import clear_database_errors, prepare_database, remove_database
from demo_project.demo_user import USERNAME, ensure_demo_user, password
from demo_project.port import HOST, port_number, require_free_port
from demo_project.progress import Progress
from demo_project.sample_loading import load_sample, missing_samples

_INTERRUPTED = 130  # what a shell reports for Ctrl-C


class Command(BaseCommand):
    """The command that sets up the demo and serves it. What is there already stays as it is."""

    help = "Makes the demo's database, loads the sample conversations and serves chat, admin and API."

    # Some checks query the database, which may be what is broken. Serving runs the checks later.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=port_number, default=8000, help=f"the port on {HOST} (default: 8000)")
        parser.add_argument("--no-serve", action="store_true", help="set everything up, then stop")
        parser.add_argument("--reset", action="store_true", help="remove the demo's database first")

    def handle(self, *, port: int, no_serve: bool, reset: bool, **options: Any) -> None:
        _require_pydantic()
        if not no_serve:
            require_free_port(port)
        try:
            if reset:
                remove_database()
            self._set_up()
        except KeyboardInterrupt:
            self.stdout.write("\nStopped. Run it again and it goes on from here.")
            raise SystemExit(_INTERRUPTED) from None
        self._print_addresses(port)
        if trouble := chosen_speaker().trouble():
            self.stderr.write(self.style.WARNING(f"The chat cannot answer yet. {trouble}"))
        if not no_serve:
            self._serve(port)

    def _set_up(self) -> None:
        self._say("Preparing the database ...")
        prepare_database()
        with clear_database_errors():
            user = ensure_demo_user()
            samples = missing_samples(user)
            if not samples:
                self._say("The sample conversations are there.")
                return
            self._say("Loading the sample conversations ...")
            with Progress(self.stdout, sum(len(sample.messages) for sample in samples)) as progress:
                for sample in samples:
                    load_sample(sample, user, progress.advance)
                    progress.note(f"  {sample.memory_id}: {len(sample.messages)} messages")

    def _print_addresses(self, port: int) -> None:
        try:
            api = f"API docs  http://{HOST}:{port}{reverse('chatmemory:docs')}"
        except NoReverseMatch:  # without the extra "demo"
            api = f"API       http://{HOST}:{port}{reverse('chatmemory:root')}"
        self._say(
            f"\n  Chat      http://{HOST}:{port}{reverse('chat')}"
            f"\n  Admin     http://{HOST}:{port}{reverse('admin:index')}"
            f"\n  {api}"
            f"\n  User      {USERNAME}"
            f"\n  Password  {password()}\n"
        )

    def _serve(self, port: int) -> None:
        self._say("Serving until you press Ctrl-C.")
        try:
            # The addresses are printed already; requests and errors still go to stderr.
            call_command("runserver", f"{HOST}:{port}", use_reloader=False, stdout=io.StringIO())
        finally:
            self._say("\nStopped.")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        # Without it a pipe would show nothing until the server ends.
        self.stdout.flush()


def _require_pydantic() -> None:
    """Check that the chat can answer: the demo's tools are described by their types.

    Raises:
        CommandError: the package is missing.
    """
    try:
        import pydantic  # noqa: F401
    except ImportError as error:
        raise CommandError('The chat needs the package pydantic. Install it: pip install -e ".[assistant]"') from error
