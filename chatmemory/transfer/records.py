"""The records of an import, their owners and times: those of a source, those that cannot be imported, and a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import require_storable
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

    index: int | None = None
    """The number of messages before it, if the source knows branches; otherwise None."""

    follows: int | None = None
    """The ``index`` of the message that it follows, -1 for none; None if it has no ``index``."""


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

    current: int | None = None
    """The ``index`` of the last message of the current branch, -1 for none; None if the source knows no branches."""


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


class Owners:
    """The users by the names that a source has for them."""

    def __init__(self, database: str, everybody: Any = None, mapped: Mapping[str, Any] | None = None) -> None:
        """
        Args:
            database: the alias of the database that has the users.
            everybody: the user who becomes the owner of all conversations; by default the source names the owners.
            mapped: users by the names that the source has for them.
        """
        self._users = get_user_model()._default_manager.using(database)
        self._everybody = everybody
        self._mapped = dict(mapped or {})
        self._by_name = lru_cache(maxsize=10_000)(self._look_up)

    def named(self, name: str | None) -> Any:
        """Return the user for a name in the source; None for a conversation without an owner.

        Raises:
            ValueError: no user has this name.
        """
        if self._everybody is not None:
            return self._everybody
        if name is None or name in self._mapped:
            return self._mapped.get(name or "")
        user = self._by_name(name)
        if user is None:
            raise ValueError(f"there is no user {name!r}; create one, or use --map-owner {name}=ID or --owner ID")
        return user

    def _look_up(self, name: str) -> Any:
        try:
            require_storable(name, "owner")
        except InvalidMessageError:
            return None  # databases refuse such a text in a query, too
        model = get_user_model()
        column: Any = model._meta.get_field(model.USERNAME_FIELD)
        found = self._users.filter(**{model.USERNAME_FIELD: name})
        # MariaDB takes "ann", "Ann" and "änn" for the same.
        return next((user for user in found if user.get_username() == column.to_python(name)), None)


def from_seconds(value: Any) -> datetime | None:
    """Return the time of a number of seconds since 1970; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def from_column(value: Any) -> datetime | None:
    """Return the time in a column, in UTC if it has no time zone; None for anything else.

    SQLite has texts, or milliseconds if JDBC wrote them.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return from_seconds(value / 1000)
    if isinstance(value, str):
        try:
            value = parse_datetime(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def as_stored(moment: datetime) -> datetime:
    """Return a time as this project stores it: with a time zone, or without one if ``USE_TZ = False``."""
    if settings.USE_TZ:
        return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return moment if timezone.is_naive(moment) else timezone.make_naive(moment)
