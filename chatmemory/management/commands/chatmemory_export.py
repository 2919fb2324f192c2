"""``python manage.py chatmemory_export``"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from chatmemory.database.reading import on_primary, pages
from chatmemory.management.arguments import add_choice, chosen_conversations
from chatmemory.management.output import Progress, output
from chatmemory.models import Conversation
from chatmemory.transfer.export import conversation_lines
from chatmemory.transfer.histories import langchain4j_lines, openai_line
from chatmemory.transfer.records import BadRecordError

_SOME_LEFT_OUT = 1

# File systems allow names of up to 255 bytes.
_NAME_CHARS = 240


class Command(BaseCommand):
    """The command. A conversation that a format cannot express is reported and left out."""

    help = (
        "Writes conversations to a file: as JSON lines with everything that is known of them, from which "
        "chatmemory_import restores them; or their history, for LangChain4j (a file for each) or OpenAI (a line for "
        "each). Exits with 1 if some are left out."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", choices=["jsonl", "langchain4j", "openai"], default="jsonl")
        parser.add_argument(
            "--output",
            metavar="PATH",
            help="the file to write (default: standard output); for langchain4j a directory, unless --conversation",
        )
        add_choice(parser)
        parser.add_argument("--strict", action="store_true", help="stop at the first conversation that is left out")

    def handle(self, *, format: str, strict: bool, verbosity: int, **options: Any) -> None:
        chosen = chosen_conversations(options)
        self._done = self._left_out = 0
        self._strict = strict
        self._progress = Progress(self.stderr, lambda: f"conversations: {self._done}", quiet=verbosity == 0)
        self._whole = chosen.count()
        if format == "langchain4j" and options["conversation"] is None:
            self._write_directory(chosen, options["output"])
        else:
            with output(options["output"], self.stdout) as out:
                for conversation in self._counted(chosen):
                    self._write(conversation, format, out)
        self._progress.clear()
        if verbosity > 0:
            self.stderr.write(f"Exported conversations: {self._done}. Left out: {self._left_out}.")
        if self._left_out:
            raise SystemExit(_SOME_LEFT_OUT)

    def _counted(self, chosen: QuerySet[Conversation]) -> Iterator[Conversation]:
        for page in pages(on_primary(chosen)):
            for conversation in page:
                yield conversation
                self._progress.show(self._done, self._whole)

    def _write(self, conversation: Conversation, format: str, out: Any) -> None:
        try:
            for line in _lines(conversation, format):
                out.write(line)
        except BadRecordError as error:
            if format == "langchain4j":  # half of a file was written
                raise CommandError(str(error)) from error
            self._leave_out(str(error))
        else:
            self._done += 1

    def _write_directory(self, chosen: QuerySet[Conversation], path: str | None) -> None:
        if path is None:
            raise CommandError("--output: LangChain4j has a file for each conversation; name a directory.")
        directory = Path(path)
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CommandError(f"--output: cannot make the directory {path}: {error.strerror}.") from error
        for conversation in self._counted(chosen):
            name = quote(conversation.memory_id, safe=" ")
            name = name if len(name) <= _NAME_CHARS else str(conversation.pk)
            try:
                with output(directory / f"{name}.json", None) as out:
                    for line in langchain4j_lines(conversation):
                        out.write(line)
            except (BadRecordError, CommandError) as error:
                self._leave_out(str(error))
            else:
                self._done += 1

    def _leave_out(self, problem: str) -> None:
        self._left_out += 1
        self._progress.clear()
        self.stderr.write(problem)
        if self._strict:
            raise CommandError("Stopped at the first conversation that cannot be exported.")


def _lines(conversation: Conversation, format: str) -> Iterator[str]:
    if format == "jsonl":
        yield from conversation_lines([conversation.pk], database=conversation._state.db)
    elif format == "openai":
        yield openai_line(conversation)
    else:
        yield from langchain4j_lines(conversation)
