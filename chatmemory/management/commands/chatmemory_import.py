"""``python manage.py chatmemory_import``"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.database.stored_windows import check_window_settings
from chatmemory.management.arguments import add_window_settings, chosen_database, chosen_user, option_of
from chatmemory.management.output import Progress
from chatmemory.models import WINDOW_SETTINGS, WindowSettings
from chatmemory.transfer.chat_files import read_langchain4j, read_openai
from chatmemory.transfer.chatgpt import read_chatgpt
from chatmemory.transfer.files import Source, numbered_lines, open_sources
from chatmemory.transfer.importing import import_all
from chatmemory.transfer.records import BadRecordError, DryRun, Found, Owners, Reports, StoppedError
from chatmemory.transfer.restore import restore
from chatmemory.transfer.tables import read_ai_assistant, read_langchain, read_openai_agents, read_spring_ai

_SOME_LEFT_OUT = 1

_LINES = "jsonl"
_FILES: dict[str, Callable[[Source, str], Found]] = {
    "langchain4j": read_langchain4j,
    "openai": read_openai,
    "chatgpt": lambda source, _memory_id: read_chatgpt(source),
}
_TABLES: dict[str, Callable[..., Found]] = {
    "langchain-sql": read_langchain,
    "openai-agents-sql": read_openai_agents,
    "spring-ai-sql": read_spring_ai,
    "django-ai-assistant": read_ai_assistant,
}
_ONLY_FOR: dict[str, list[str]] = {
    "memory_id": ["langchain4j", "openai"],
    "table": list(_TABLES),
    # Conversations of an export keep their own.
    **{name: [*_FILES, *_TABLES] for name in WINDOW_SETTINGS},
}
"""The formats of each option that only some have a use for."""


class Command(BaseCommand):
    """The command. If it is interrupted, another run continues; it adds nothing twice."""

    help = (
        "Restores conversations from the files of chatmemory_export, or creates conversations from files or tables of "
        "other programs. A record that cannot be imported is reported with its place, and left out. Exits with 1 if "
        "any was."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", metavar="FILE", help="for chatgpt also the zip archive")
        parser.add_argument(
            "--format", choices=[_LINES, *_FILES, *_TABLES], default=_LINES, help="the format to read (default: jsonl)"
        )
        parser.add_argument("--from", dest="source", metavar="ALIAS", help="the database that has the tables")
        parser.add_argument(
            "--table", metavar="NAME", help="the table of messages, or of threads, if its name is not the default"
        )
        parser.add_argument(
            "--memory-id",
            metavar="ID",
            help="the memory ID of the conversation, if there is one FILE (default: the file's name)",
        )
        parser.add_argument(
            "--owner", metavar="ID", help="the user with this primary key becomes the owner of all conversations"
        )
        parser.add_argument(
            "--map-owner",
            metavar="NAME=ID",
            action="append",
            default=[],
            help="the user with this primary key becomes the owner of NAME's conversations; may be repeated",
        )
        add_window_settings(parser, "the window of new conversations", WINDOW_SETTINGS)
        parser.add_argument("--database", metavar="ALIAS", help="the database (default: the one that is written to)")
        parser.add_argument("--dry-run", action="store_true", help="print what would be imported; write nothing")
        parser.add_argument("--strict", action="store_true", help="stop at the first record that cannot be imported")

    def handle(self, *, files: list[str], verbosity: int, dry_run: bool, strict: bool, **options: Any) -> None:
        _check(files, options)
        database = chosen_database(options["database"])
        self._where: dict[str, Any] = {"database": database, "dry_run": DryRun() if dry_run else None}
        self._owners = _owners(options, database)
        self._settings = _settings(options)
        self._reports = Reports(say=self._say, strict=strict)
        self._progress = Progress(self.stderr, lambda: _account(self._reports), quiet=verbosity == 0)
        try:
            if options["format"] in _TABLES:
                self._read_tables(options["format"], options["source"], options["table"])
            for path in map(Path, files):
                self._read(path, options["format"], options["memory_id"] or unquote(path.stem))
        except StoppedError:
            self._progress.clear()
            self.stderr.write("Stopped. What was imported before stays; run it again to continue.")
        self._progress.clear()
        if verbosity > 0:
            self.stdout.write(f"{'Would import' if dry_run else 'Imported'} {_account(self._reports)}.")
        if self._reports.problems:
            raise SystemExit(_SOME_LEFT_OUT)

    def _read(self, path: Path, format: str, memory_id: str) -> None:
        try:
            with open_sources(path, archives=format == "chatgpt") as sources:
                for open_source in sources:
                    source = open_source()
                    for _step in self._steps(source, format, memory_id):
                        self._progress.show(source.read, source.size)
        except BadRecordError as error:
            self._reports.bad(error)

    def _steps(self, source: Source, format: str, memory_id: str) -> Iterator[None]:
        if format == _LINES:
            return restore(numbered_lines(source), self._reports, self._owners, **self._where)
        return self._import(format, _FILES[format](source, memory_id))

    def _read_tables(self, format: str, database: str, table: str | None) -> None:
        found = _TABLES[format](database, *([table] if table else []))
        try:
            for _step in self._import(format, found):
                self._progress.show()
        except BadRecordError as error:
            self._reports.bad(error)

    def _import(self, format: str, found: Found) -> Iterator[None]:
        return import_all(format, found, self._reports, self._owners, settings=self._settings, **self._where)

    def _say(self, problem: str) -> None:
        self._progress.clear()
        self.stderr.write(problem)


def _check(files: list[str], options: dict[str, Any]) -> None:
    of_tables = options["format"] in _TABLES
    if options["memory_id"] is not None and len(files) > 1:
        raise CommandError("--memory-id: is for one file; without it each file's name is the memory ID.")
    if of_tables and (files or options["source"] is None):
        raise CommandError(
            f"--format {options['format']}: reads tables; name their database with --from, and give no FILE."
        )
    if not of_tables and (not files or options["source"] is not None):
        raise CommandError(f"--format {options['format']}: reads files; give at least one FILE, and no --from.")
    for name, of in _ONLY_FOR.items():
        if options[name] is not None and options["format"] not in of:
            raise CommandError(f"{option_of(name)}: is for --format {', '.join(of)}; leave it out.")
    if options["source"] is not None:
        chosen_database(options["source"], "--from")


def _account(reports: Reports) -> str:
    return (
        f"conversations: {reports.conversations}, messages: {reports.messages}; "
        f"there already: {reports.unchanged}, left out: {reports.problems}"
    )


def _owners(options: dict[str, Any], database: str) -> Owners:
    everybody = None if options["owner"] is None else chosen_user("--owner", options["owner"], database)
    mapped = {}
    for text in options["map_owner"]:
        name, equals, key = text.rpartition("=")
        if not equals or not name:
            raise CommandError(f"--map-owner: expected NAME=ID, got {text!r}.")
        mapped[name] = chosen_user("--map-owner", key, database)
    return Owners(database, everybody, mapped)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    settings = {name: options[name] for name in WINDOW_SETTINGS if options[name] is not None}
    for name, value in settings.items():
        try:
            check_window_settings(cast("WindowSettings", {name: value}))
        except ValueError as error:
            raise CommandError(f"{option_of(name)}: {error}") from error
    return settings
