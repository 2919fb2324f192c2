"""The records of an import: those that a source has, those that cannot be imported, and the account of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from chatmemory.core.messages import ChatMessage

MAX_PROBLEMS = 1000
"""The most problems that are printed; the others are only counted."""

_MAX_PROBLEM_CHARS = 1000


class BadRecordError(Exception):
    """A record that cannot be imported or exported."""

    def __init__(self, place: str, problem: str) -> None:
        """
        Args:
            place: the record's place: ``backup.jsonl:17``.
            problem: what is wrong, and what to do.
        """
        if len(problem) > _MAX_PROBLEM_CHARS:
            problem = f"{problem[:_MAX_PROBLEM_CHARS]}…"
        self.problem = problem
        super().__init__(_printable(f"{place}: {problem}"))


class StoppedError(Exception):
    """The end of a strict import at its first bad record."""


@dataclass(frozen=True, kw_only=True)
class FoundMessage:
    """One message of a source."""

    place: str
    """The place in the source, for error messages."""

    message: ChatMessage

    said_at: datetime | None = None
    """The time when it was said, if the source knows it."""

    native: Any = None
    """The source's own form, a JSON value; None if the message expresses all of it."""


@dataclass(frozen=True, kw_only=True)
class FoundConversation:
    """One conversation of a source."""

    place: str
    """The place in the source, for error messages."""

    memory_id: str
    """The source's own ID, by which another import recognises the conversation."""

    messages: Iterable[FoundMessage | BadRecordError]
    """The messages in the order said. They are read once, so there may be any number of them."""

    framework: str = ""
    """The framework of the native forms."""

    title: str = ""

    metadata: dict[str, Any] = field(default_factory=dict)
    """Everything else that the source knows of the conversation."""

    owner: str | None = None
    """The user name of the owner, if the source knows it."""

    created_at: datetime | None = None


Found = Iterator[FoundConversation | BadRecordError]
"""The conversations of a source, and an error for each record that cannot be read as one."""


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
        if self.problems <= MAX_PROBLEMS or self.strict:
            self.say(str(error))
        if self.problems == MAX_PROBLEMS + 1:
            self.say(f"There are over {MAX_PROBLEMS} problems; the others are only counted.")
        if self.strict:
            raise StoppedError


def _printable(text: str) -> str:
    """Return ``text`` with escapes for control characters: problems quote the input, and a terminal would obey it."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


@dataclass
class DryRun:
    """The conversations that a dry run would have written so far, so that one that comes twice is found."""

    marks: dict[tuple[Any, str], dict[str, Any]] = field(default_factory=dict)
    """The notes of imports from other programs, by the owner's primary key and the memory ID."""

    restored: dict[UUID, bytes] = field(default_factory=dict)
    """Digests of the lines of restored conversations, by primary key."""

    memory_ids: set[tuple[Any, str]] = field(default_factory=set)
    """The owners' primary keys and the memory IDs of restored conversations."""
