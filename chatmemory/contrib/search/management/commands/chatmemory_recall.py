"""``python manage.py chatmemory_recall``"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from chatmemory.contrib.search.questions import Question, read_questions
from chatmemory.contrib.search.replaying import HITS, RecallFigures, replay_recall
from chatmemory.management.arguments import positive
from chatmemory.management.output import Progress, table
from chatmemory.management.replays import add_replay, chosen_replay, title
from chatmemory.models import Conversation

_REQUESTS = ("window", "requests", "input tokens", "with hits", "hits", "tokens of hits", "of input")
_QUESTIONS = ("window", "questions", "in the window", "with summaries", "with recall")


class Command(BaseCommand):
    """The command. It writes nothing to the database."""

    help = (
        "Prints what a search would have found for each answered user message among the messages that the window had "
        "lost, as it was and with other windows: the share of requests with hits, and the tokens that the hits would "
        "add. With --questions, it also prints for which questions the model would have had the messages that answer "
        "them. No model is called. Options with several values make a line for each combination."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_replay(parser)
        parser.add_argument(
            "--hits",
            type=positive,
            default=HITS,
            metavar="NUMBER",
            help=f"the maximum number of hits of one search (default: {HITS})",
        )
        parser.add_argument(
            "--questions",
            metavar="FILE",
            help='one JSON object on each line, such as {"conversation": "support-42", "question": "What does the '
            'customer drink?", "positions": [3, 17], "at": 120}, with the positions of the messages that answer the '
            "question, and the position before which it is asked (default: the end). Only the conversations in the "
            "file are replayed.",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object for each line")

    def handle(self, *, hits: int, **options: Any) -> None:
        chosen, variants = chosen_replay(options)
        questions: list[Question] = []
        if options["questions"] is not None:
            questions = _questions(options["questions"], chosen)
            chosen = chosen.filter(pk__in={question.conversation for question in questions})
        total = [RecallFigures()] * (1 + len(variants))
        progress = Progress(self.stderr, lambda: f"conversations: {total[0].conversations}")
        try:
            for of_one in replay_recall(chosen, [None, *variants], hits=hits, questions=questions):
                total = [one + another for one, another in zip(total, of_one, strict=True)]
                progress.show()
        except ValueError as error:
            raise CommandError(str(error)) from None
        progress.clear()
        lines = list(zip([None, *variants], total, strict=True))
        if options["json"]:
            for variant, figures in lines:
                shares = {"recalled_share": figures.recalled_share, "added_share": figures.added_share}
                self.stdout.write(json.dumps({"window": variant, **asdict(figures), **shares}))
            return
        named = [(title(variant), figures) for variant, figures in lines]
        self._print([_REQUESTS, *(_request_cells(*line) for line in named)])
        if questions:
            self.stdout.write("\nQuestions with one of their messages / with all of them:")
            self._print([_QUESTIONS, *(_question_cells(*line) for line in named)])
        self._print_notes(total[0])

    def _print(self, rows: list[tuple[str, ...]]) -> None:
        for line in table(rows):
            self.stdout.write(line)

    def _print_notes(self, figures: RecallFigures) -> None:
        self.stdout.write(f"Conversations: {figures.conversations:,}.")
        if figures.missing:
            self.stdout.write(f"Messages that are deleted, so that recall cannot find them: {figures.missing:,}.")
        if figures.unread:
            self.stdout.write(
                f"Messages that are not indexed, so that recall cannot find them: {figures.unread:,}. "
                f"Run chatmemory_index first."
            )


def _questions(path: str, conversations: QuerySet[Conversation]) -> list[Question]:
    """Return the questions of a file.

    Raises:
        CommandError: the file cannot be read, is empty, or has an invalid line.
    """
    try:
        with open(path, encoding="utf-8") as file:
            found = read_questions(file, conversations)
    except OSError as error:
        raise CommandError(f"--questions: cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"--questions: {path} is not UTF-8.") from None
    except ValueError as error:
        raise CommandError(f"--questions: {path}, {error}.") from None
    if not found:
        raise CommandError(f"--questions: there are no questions in {path}.")
    return found


def _request_cells(name: str, figures: RecallFigures) -> tuple[str, ...]:
    return (
        name,
        f"{figures.requests:,}",
        f"{figures.input_tokens:,}",
        f"{figures.recalled_share:.1%}",
        f"{figures.hits:,}",
        f"{figures.hit_tokens:,}",
        f"{figures.added_share:.1%}",
    )


def _question_cells(name: str, figures: RecallFigures) -> tuple[str, ...]:
    pairs = (
        (figures.window_one, figures.window_all),
        (figures.summaries_one, figures.summaries_all),
        (figures.recall_one, figures.recall_all),
    )
    shares = (" / ".join(f"{count / figures.questions:.0%}" for count in pair) for pair in pairs)
    return (name, f"{figures.questions:,}", *shares)
