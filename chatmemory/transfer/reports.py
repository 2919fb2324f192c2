"""What an import did, and what it could not take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["BadRecordError", "Reports", "StoppedError"]


class BadRecordError(Exception):
    """A record that cannot be taken."""

    def __init__(self, place: str, problem: str) -> None:
        """
        Args:
            place: where it is: ``backup.jsonl:17``.
            problem: what is wrong, and what to do.
        """
        self.place = place
        # Problems quote the input, and half of a surrogate pair could not be shown.
        self.problem = problem.encode("utf-8", "backslashreplace").decode()
        super().__init__(f"{place}: {self.problem}")


class StoppedError(Exception):
    """A bad record ended a strict import."""


@dataclass
class Reports:
    """Counts what is done, and says what could not be."""

    say: Callable[[str], object]
    """Called with each problem, ``place: problem``."""

    strict: bool = False
    """Whether the first problem ends the import."""

    conversations: int = 0
    """Made, or gone on with."""

    messages: int = 0
    """Added."""

    unchanged: int = 0
    """Conversations that were there already, as the source has them."""

    problems: int = 0

    def bad(self, error: BadRecordError) -> None:
        """Report a record that is left out.

        Raises:
            StoppedError: the import is strict.
        """
        self.problems += 1
        self.say(str(error))
        if self.strict:
            raise StoppedError
