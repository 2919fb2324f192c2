"""``python manage.py chatmemory_replay``"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from datetime import timedelta
from itertools import product
from typing import Any, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet
from django.utils import timezone

from chatmemory.capabilities import RECALL_HITS
from chatmemory.management.arguments import add_choice, add_window_settings, chosen_conversations, positive
from chatmemory.management.output import Progress, table
from chatmemory.models import Conversation, WindowSettings
from chatmemory.replaying import REPLAYED, Question, RecallFigures, Replayed, read_questions, replay

_COLUMNS = ("window", "requests", "input tokens", "hits", "breaks", "evictions")
_RECALLED = ("window", "user messages", "input tokens", "recalled", "messages", "their tokens", "of input")
_QUESTIONS = ("window", "questions", "in the window", "with summaries", "with recall")

_AS_IT_WAS = "as it was"
_MOST_VARIANTS = 20
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class Command(BaseCommand):
    """The command. It writes nothing to the database."""

    help = (
        "Prints how much of the requests to the model a provider's prompt cache may have had, as it was and with other "
        "windows: the share of the input with which the request before began, too (hits), the share of requests that "
        "do not begin with the whole request before (breaks), and, if PRICES is set, the cost of the input. With "
        "--recall, it also prints what a search would have found of what the window had lost. Options with several "
        "values make a line for each combination. No model is called."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_window_settings(parser, "the windows to replay with", REPLAYED, many=True)
        parser.add_argument(
            "--since", type=_duration, metavar="TIME", help="only conversations active in this time: 30d"
        )
        add_choice(parser)
        parser.add_argument(
            "--recall",
            action="store_true",
            help="also search, for each answered user message, among the messages that the window had lost; needs "
            "chatmemory.contrib.search",
        )
        parser.add_argument(
            "--hits",
            type=positive,
            metavar="NUMBER",
            help=f"with --recall: the maximum number of messages that a search finds (default: {RECALL_HITS})",
        )
        parser.add_argument(
            "--questions",
            metavar="FILE",
            help="with --recall: for which questions the model would have had the messages that answer them. One JSON "
            'object on each line, such as {"conversation": "support-42", "question": "What does the customer drink?", '
            '"positions": [3, 17], "at": 120}, with the positions of these messages, and the position before which the '
            "question is asked (default: the end). Only the conversations in the file are replayed.",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object for each line")

    def handle(self, *, recall: bool, hits: int | None, **options: Any) -> None:
        for name, value in (("--hits", hits), ("--questions", options["questions"])):
            if value is not None and not recall:
                raise CommandError(f"{name}: use it with --recall.")
        chosen, variants = _chosen(options)
        questions: list[Question] = []
        if options["questions"] is not None:
            questions = _questions(options["questions"], chosen)
            chosen = chosen.filter(pk__in={question.conversation for question in questions})
        total = [Replayed()] * (1 + len(variants))
        progress = Progress(self.stderr, lambda: f"conversations: {total[0].conversations}")
        try:
            found = replay(chosen, [None, *variants], recall=recall, hits=hits or RECALL_HITS, questions=questions)
            for of_one in found:
                total = [one + another for one, another in zip(total, of_one, strict=True)]
                progress.show()
        except (RuntimeError, ValueError) as error:
            raise CommandError(str(error)) from None
        progress.clear()
        lines = list(zip([None, *variants], total, strict=True))
        if options["json"]:
            for variant, figures in lines:
                self.stdout.write(json.dumps({"window": variant, **_as_json(figures, recall)}))
            return
        named = [(_title(variant), figures) for variant, figures in lines]
        self._print_table(named)
        if recall:
            self._print_recall([(name, figures.recall) for name, figures in named], has_questions=bool(questions))

    def _print_table(self, lines: list[tuple[str, Replayed]]) -> None:
        first = lines[0][1]
        has_cost = first.priced_requests > 0
        rows: list[tuple[str, ...]] = [(*_COLUMNS, "cost") if has_cost else _COLUMNS]
        rows += [_cells(name, figures) + ((f"{figures.cost:,.2f}",) if has_cost else ()) for name, figures in lines]
        self._print(rows)
        self.stdout.write(f"Conversations: {first.conversations:,}.")
        if first.missing:
            self.stdout.write(f"Messages that are deleted, so that nothing is known of them: {first.missing:,}.")
        if has_cost and first.priced_requests < first.requests:
            unpriced = first.requests - first.priced_requests
            self.stdout.write(f"Requests without a cost, because PRICES does not name their model: {unpriced:,}.")

    def _print_recall(self, lines: list[tuple[str, RecallFigures]], *, has_questions: bool) -> None:
        self.stdout.write("\nWhat a search would have found of what the window had lost:")
        self._print([_RECALLED, *(_recall_cells(*line) for line in lines)])
        if has_questions:
            self.stdout.write("\nQuestions with one of their messages / with all of them:")
            self._print([_QUESTIONS, *(_question_cells(*line) for line in lines)])
        if unread := lines[0][1].unread:
            self.stdout.write(
                f"Messages that are not indexed, so that recall cannot find them: {unread:,}. "
                f"Run chatmemory_index first."
            )

    def _print(self, rows: list[tuple[str, ...]]) -> None:
        for line in table(rows):
            self.stdout.write(line)


def _chosen(options: dict[str, Any]) -> tuple[QuerySet[Conversation], list[WindowSettings]]:
    """Return the conversations and the settings of all windows that the options choose.

    Raises:
        CommandError: there is no such database, user or conversation, or there are too many windows.
    """
    chosen = chosen_conversations(options)
    if options["since"] is not None:
        chosen = chosen.filter(updated_at__gte=timezone.now() - options["since"])
    return chosen, _variants(options)


def _duration(text: str) -> timedelta:
    """Return a time such as ``30d``.

    Raises:
        argparse.ArgumentTypeError: it is no number of hours, days or weeks, or more than the calendar has.
    """
    found = re.fullmatch("([1-9][0-9]{0,8})([hdw])", text)
    try:
        span = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
        if span is not None and timezone.now() - span:
            return span
    except OverflowError:
        pass
    raise argparse.ArgumentTypeError(f"must be a time such as 12h, 30d or 8w, but is: {text!r:.100}")


def _variants(options: dict[str, Any]) -> list[WindowSettings]:
    """Return the settings of all combinations; none if no option names a setting.

    Raises:
        CommandError: they are too many.
    """
    given = {name: options[name] for name in REPLAYED if options[name] is not None}
    values = [value if isinstance(value, list) else [value] for value in given.values()]
    variants = [dict(zip(given, combination, strict=True)) for combination in product(*values)] if given else []
    if len(variants) > _MOST_VARIANTS:
        raise CommandError(
            f"{len(variants)} combinations are too many; give values that make {_MOST_VARIANTS} at most."
        )
    return cast(list[WindowSettings], variants)


def _title(variant: WindowSettings | None) -> str:
    """Return the name of a variant in a table."""
    if variant is None:
        return _AS_IT_WAS
    return ", ".join(_option(name, value) for name, value in variant.items())


def _option(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    return f"{words} {value}" if isinstance(value, str) else f"{words} {value:,}"


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


def _cells(name: str, figures: Replayed) -> tuple[str, ...]:
    return (
        name,
        f"{figures.requests:,}",
        f"{figures.input_tokens:,}",
        f"{figures.hit_share:.1%}",
        f"{figures.break_share:.1%}",
        f"{figures.evictions:,}",
    )


def _recall_cells(name: str, figures: RecallFigures) -> tuple[str, ...]:
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


def _as_json(figures: Replayed, recall: bool) -> dict[str, Any]:
    cost = float(figures.cost) if figures.priced_requests else None
    found = {**asdict(figures), "hit_share": figures.hit_share, "break_share": figures.break_share, "cost": cost}
    if recall:
        shares = {"recalled_share": figures.recall.recalled_share, "added_share": figures.recall.added_share}
        return {**found, "recall": {**found["recall"], **shares}}
    del found["recall"]
    return found
