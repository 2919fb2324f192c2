"""The past memory that an address asks for, and what is wrong with the address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.arrivals import last_position
from chatmemory.admin.display.bounded_rows import without_text
from chatmemory.core.arguments import whole_number
from chatmemory.database.reading import is_answer, request_before
from chatmemory.models import MAX_LIMIT, Conversation, Message, MessageQuerySet

__all__ = ["AskedMemory", "asked_version"]

_NO_VERSION = _("Version: there is no version {asked}. The versions are 0 to {last}.")
_AGAINST_NO_VERSION = _("Compare with version: there is no version {asked}. The versions are 0 to {last}.")
_NO_MESSAGE = _("After message #: there is no message {asked}. The messages are 0 to {last}.")
_NO_ANSWER = _("Before answer #: there is no message {asked}. The messages are 0 to {last}.")
_NOTHING_SAID = _("No messages were said yet.")
_NOT_THE_MODELS = _("Before answer #: message {asked} is not an answer of the model. It is of the type: {type}.")

_LONGEST_ECHO = 20


@dataclass(frozen=True, kw_only=True)
class AskedMemory:
    """A memory of the past: that of a version, or the one that an answer was made from."""

    conversation: Conversation

    version: int
    """The version; before an answer, the last version that the answer's request knew."""

    answer: Message | None = None
    """The answer whose request is asked for, without its text; None if a version is."""

    after: int | None = None
    """The position of the last message that had been added."""

    problem: Any = None
    """The mistake in the address, for which the memory now is shown instead; None if there is none."""

    instead: int | None = None
    """The position of a message that is no answer, after which the memory can be shown."""

    @classmethod
    def of(cls, conversation: Conversation, query: QueryDict) -> AskedMemory:
        """Return what ``?answer=``, ``?message=`` (positions) or ``?version=`` ask for; by default the memory now."""
        if answer := query.get("answer", ""):
            return cls._before_answer(conversation, answer)
        if message := query.get("message", ""):
            row = _row_at(conversation, message)
            if row is None:
                return cls._now(conversation, _no_message(conversation, _NO_MESSAGE, message))
            return cls.at(conversation, row.added_in)
        version, problem = asked_version(conversation, query.get("version", ""), _NO_VERSION)
        return cls._now(conversation, problem) if version is None else cls.at(conversation, version)

    @classmethod
    def _before_answer(cls, conversation: Conversation, asked: str) -> AskedMemory:
        row = _row_at(conversation, asked)
        if row is None:
            return cls._now(conversation, _no_message(conversation, _NO_ANSWER, asked))
        if not is_answer(row):
            problem = format_lazy(_NOT_THE_MODELS, asked=row.position, type=row.get_type_display())
            return cls._now(conversation, problem, instead=row.position)
        return cls(conversation=conversation, version=row.added_in - 1, answer=row, after=row.position - 1)

    @classmethod
    def _now(cls, conversation: Conversation, problem: Any, instead: int | None = None) -> AskedMemory:
        after = last_position(conversation, conversation.version)
        return cls(
            conversation=conversation, version=conversation.version, after=after, problem=problem, instead=instead
        )

    @classmethod
    def at(cls, conversation: Conversation, version: int) -> AskedMemory:
        """Return the memory at a version that there is."""
        return cls(conversation=conversation, version=version, after=last_position(conversation, version))

    @property
    def is_now(self) -> bool:
        """Whether it is the memory as it is now."""
        return self.answer is None and self.version == self.conversation.version

    @property
    def query(self) -> tuple[str, int]:
        """The name and the value of the parameter that asks for it."""
        return ("version", self.version) if self.answer is None else ("answer", self.answer.position)

    @property
    def file_name(self) -> str:
        """The name of its file, without a format."""
        name = f"version-{self.version}" if self.answer is None else f"before-message-{self.answer.position}"
        return f"conversation-{self.conversation.pk}-{name}"

    def rows(self) -> MessageQuerySet:
        """Return its rows, in memory order."""
        if self.answer is not None:
            return request_before(self.answer)
        messages: MessageQuerySet = self.conversation.messages.all()
        return messages.retained() if self.is_now else messages.in_memory_at(self.version)


def asked_version(conversation: Conversation, asked: str, no_such: Any = _AGAINST_NO_VERSION) -> tuple[int | None, Any]:
    """Return the version that ``asked`` writes, by default the last, or None and what is wrong with it."""
    if not asked:
        return conversation.version, None
    version = whole_number(asked, most=conversation.version)
    return version, format_lazy(no_such, asked=_echo(asked), last=conversation.version) if version is None else None


def _row_at(conversation: Conversation, asked: str) -> Message | None:
    position = whole_number(asked, most=MAX_LIMIT)
    return None if position is None else without_text(conversation.messages.filter(position=position)).first()


def _no_message(conversation: Conversation, no_such: Any, asked: str) -> Any:
    if not conversation.next_position:
        return _NOTHING_SAID
    return format_lazy(no_such, asked=_echo(asked), last=conversation.next_position - 1)


def _echo(asked: str) -> str:
    return asked if len(asked) <= _LONGEST_ECHO else f"{asked[:_LONGEST_ECHO]}…"
