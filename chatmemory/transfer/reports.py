"""The account of an import: what it added, and what it left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["BadRecordError", "Reports", "StoppedError"]


class BadRecordError(Exception):
    """A record that cannot be imported or exported."""

    def __init__(self, place: str, problem: str) -> None:
        """
        Args:
            place: the record's place: ``backup.jsonl:17``.
            problem: what is wrong, and what to do.
        """
        self.place = place
        # Problems quote the input, and half of a surrogate pair could not be printed.
        self.problem = problem.encode("utf-8", "backslashreplace").decode()
        super().__init__(f"{place}: {self.problem}")


class StoppedError(Exception):
    """The end of a strict import at its first bad record."""


@dataclass
class Reports:
    """The counters of an import, and the function that prints its problems."""

    say: Callable[[str], object]
    """The function that is called with each problem, ``place: problem``."""

    strict: bool = False
    """Whether the first problem ends the import."""

    conversations: int = 0
    """The number of conversations that were created or continued."""

    messages: int = 0
    """The number of messages that were added."""

    unchanged: int = 0
    """The number of conversations that were there already, as the source has them."""

    problems: int = 0
    """The number of records that were left out."""

    def bad(self, error: BadRecordError) -> None:
        """Report a record that is left out.

        Raises:
            StoppedError: the import is strict.
        """
        self.problems += 1
        self.say(str(error))
        if self.strict:
            raise StoppedError
