"""``python manage.py chatmemory_user``"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import ProtectedError, RestrictedError

from chatmemory.conf import setting
from chatmemory.management.arguments import chosen_database
from chatmemory.management.output import output
from chatmemory.personal_data import erase_user, export_user


class Command(BaseCommand):
    """The command. It answers a user who asks for their data, or for its erasure."""

    help = (
        "Exports everything of one user as JSON lines, or erases it; the setting ERASE_USER says whether erased "
        "conversations are deleted or anonymised. The user's own row stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["export", "erase"])
        parser.add_argument("user", help="the user name, or with --id the primary key")
        parser.add_argument("--id", action="store_true", help="USER is a primary key")
        parser.add_argument("--output", metavar="FILE", help="export: the file to write (default: standard output)")
        parser.add_argument("--no-input", action="store_false", dest="interactive", help="erase: do not ask")
        parser.add_argument("--database", metavar="ALIAS", help="the database (default: the one that is written to)")

    def handle(self, *, act: str, user: str, id: bool, interactive: bool, **options: Any) -> None:
        database = chosen_database(options["database"])
        person = _user(user, id, database)
        if act == "export":
            with output(options["output"], self.stdout) as out:
                for line in export_user(person, database=database):
                    out.write(line)
            return
        if options["output"] is not None:
            raise CommandError("--output: erase writes no file; export first, then erase. Nothing was erased.")
        if interactive:
            self._ask(person)
        try:
            erased = erase_user(person, database=database)
        except (ProtectedError, RestrictedError) as error:
            raise CommandError(
                f"A conversation cannot be erased, because other objects refer to it: {error}"
            ) from error
        done = "Anonymised" if setting("ERASE_USER") == "anonymise" else "Erased"
        self.stdout.write(
            f"{done} conversations: {erased.conversations}, messages: {erased.messages}. "
            f"Erased idempotency keys: {erased.keys}."
        )

    def _ask(self, user: Any) -> None:
        act = "anonymise" if setting("ERASE_USER") == "anonymise" else "erase"
        try:
            answer = input(f"This will {act} all conversations of {user} and cannot be undone. Type yes to continue: ")
        except EOFError:
            raise CommandError(
                "Nothing was erased, because the question was not answered. --no-input erases without a question."
            ) from None
        if answer != "yes":
            raise CommandError("Nothing was erased.")


def _user(name: str, is_key: bool, database: str) -> Any:
    model = get_user_model()
    field = "pk" if is_key else model.USERNAME_FIELD
    with suppress(model.DoesNotExist, ValueError, ValidationError, OverflowError):
        found = model._default_manager.using(database).get(**{field: name})
        column: Any = model._meta.get_field(model.USERNAME_FIELD)
        # MariaDB takes "ann", "Ann" and "änn" for the same.
        if is_key or found.get_username() == column.to_python(name):
            return found
    what, hint = ("primary key", "") if is_key else ("user name", " With --id, USER is a primary key.")
    raise CommandError(f"There is no user with the {what} {name!r}.{hint}")
