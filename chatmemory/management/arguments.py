"""The arguments that several commands accept, with the same checks."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import connections, router
from django.db.models import QuerySet

from chatmemory.core.window import PRESETS, SETTINGS, Kind
from chatmemory.models import Conversation


def positive(text: str) -> int:
    """Return ``text`` as a whole number above zero, of at most 18 digits.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    # Before int(), which refuses thousands of digits; databases refuse a LIMIT of more than 18.
    if text.isdecimal() and len(text) > 18:
        raise argparse.ArgumentTypeError(f"must have at most 18 digits, but is: {text!r:.100}")
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above zero, but is: {text!r:.100}")
    return int(text)


def percentage(text: str) -> int:
    """Return ``text`` as a whole number from 0 to 100.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    if text.isdecimal() and len(text) <= 3 and int(text) <= 100:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 100, but is: {text!r:.100}")


def add_choice(parser: CommandParser, *, conversation: bool = True) -> None:
    """Add the options that choose conversations; ``chosen_conversations`` reads them."""
    parser.add_argument("--owner", metavar="ID", help="only conversations of the user with this primary key")
    if conversation:
        parser.add_argument("--conversation", metavar="ID", help="only the conversation with this primary key")
    parser.add_argument("--database", metavar="ALIAS", help="the database (default: the one that is written to)")


def option_of(name: str) -> str:
    """Return the option for a setting of a window."""
    return f"--{name.replace('_', '-')}"


def add_window_settings(parser: CommandParser, title: str, names: Iterable[str], *, many: bool = False) -> None:
    """Add options for settings of a window. Each is None if it is not given.

    Args:
        parser: the command's.
        title: what its help calls the group of these options.
        names: the settings.
        many: whether options with numbers take several, which they have as a list.
    """
    group = parser.add_argument_group(title)
    for setting in map(SETTINGS.__getitem__, names):
        how: dict[str, Any]
        match setting.kind:
            case Kind.CHOICE:
                how = {"choices": list(setting.choices)}
            case Kind.FLAG:
                how = {"action": argparse.BooleanOptionalAction}
            case Kind.TEXT:
                how = {"metavar": "NAME"}
            case _:
                kind = positive if setting.least > 0 else int
                how = {"type": kind, "metavar": "PERCENT" if setting.kind is Kind.PERCENT else "NUMBER"}
                how |= {"nargs": "+"} if many else {}
        group.add_argument(option_of(setting.name), help=setting.help.replace("%", "%%"), **how)


def add_preset(parser: CommandParser) -> None:
    """Add the option for a preset of a window."""
    parser.add_argument(
        "--preset",
        choices=list(PRESETS),
        help="settings that suit a use; those that are given beside it hold before its own",
    )


def chosen_database(alias: str | None, option: str = "--database") -> str:
    """Return ``alias``, by default that of the database that conversations are written to.

    Raises:
        CommandError: there is no such database; the error names ``option``.
    """
    database = alias or router.db_for_write(Conversation)
    if database not in connections:
        raise CommandError(f"{option}: there is no {database!r} in DATABASES; take one of {', '.join(connections)}.")
    return database


def chosen_user(option: str, key: str, database: str) -> Any:
    """Return the user with a primary key.

    Raises:
        CommandError: there is none; the error names ``option``.
    """
    with suppress(ValueError, ValidationError, OverflowError):
        found = get_user_model()._default_manager.using(database).filter(pk=key).first()
        if found is not None:
            return found
    raise CommandError(f"{option}: there is no user with the primary key {key!r}.")


def chosen_conversations(options: dict[str, Any]) -> QuerySet[Conversation]:
    """Return the conversations that the options choose.

    Raises:
        CommandError: there is no such database, user or conversation.
    """
    database = chosen_database(options["database"])
    chosen: QuerySet[Conversation] = Conversation.objects.using(database)
    if options["owner"] is not None:
        chosen = chosen.filter(owner=chosen_user("--owner", options["owner"], database))
    if options.get("conversation") is not None:
        try:
            chosen = chosen.filter(pk=UUID(options["conversation"]))
        except ValueError:
            raise CommandError(f"--conversation: {options['conversation']!r} is not a UUID.") from None
        if not chosen.exists():
            raise CommandError(f"--conversation: there is no conversation {options['conversation']!r} among these.")
    return chosen
