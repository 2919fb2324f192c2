"""Questions about stored conversations, with the positions of the messages that answer them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import loads
from chatmemory.models import Conversation, Message, Origin

_REQUIRED = ("conversation", "question", "positions")
_KEYS = (*_REQUIRED, "at")


@dataclass(frozen=True)
class Question:
    """A question, and where its answer is."""

    conversation: UUID

    text: str

    positions: frozenset[int]
    """The positions of the messages that answer it, at least one."""

    at: int
    """The position of the message before which it is asked."""


def read_questions(lines: Iterable[str], conversations: QuerySet[Conversation]) -> list[Question]:
    """Return the questions of a file with one JSON object on each line. Blank lines are skipped.

    Args:
        lines: the lines of the file.
        conversations: the conversations that questions may be about.

    Raises:
        InvalidValueError: a line is invalid; the error contains its number.
    """
    found: list[Question] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_question(loads(line), conversations))
        except InvalidValueError as error:
            raise InvalidValueError("line %(number)s: %(problem)s", number=number, problem=str(error)) from None
    return found


def _question(data: Any, conversations: QuerySet[Conversation]) -> Question:
    if not isinstance(data, dict):
        raise InvalidValueError("expected a JSON object")
    for name in data:
        if name not in _KEYS:
            raise InvalidValueError("%(name)s is unknown; the keys are %(keys)s", name=name, keys=", ".join(_KEYS))
    for name in _REQUIRED:
        if name not in data:
            raise InvalidValueError("%(name)s is missing", name=name)
    text = data["question"]
    if not isinstance(text, str) or not text.strip():
        raise InvalidValueError("question must be text that is not blank")
    conversation = _conversation(data["conversation"], conversations)
    end = conversation.next_position
    at = data.get("at", end)
    if not _is_position(at) or at > end:
        raise InvalidValueError("at must be a position from 0 to %(end)s, but is: %(at)r", end=end, at=at)
    return Question(conversation.pk, text, _positions(data["positions"], at, conversation), at)


def _conversation(name: Any, conversations: QuerySet[Conversation]) -> Conversation:
    """Return the conversation with a primary key or a ``memory_id``."""
    if not isinstance(name, str):
        raise InvalidValueError("conversation must be the text of a UUID or a memory_id")
    named = Q(memory_id=name)
    with suppress(ValueError):
        named |= Q(pk=UUID(name))
    found = list(conversations.filter(named)[:2])
    if not found:
        raise InvalidValueError("there is no conversation %(name)r among these", name=name)
    if len(found) > 1:
        raise InvalidValueError("several owners have a conversation %(name)r; use its UUID", name=name)
    return found[0]


def _positions(given: Any, at: int, conversation: Conversation) -> frozenset[int]:
    if not isinstance(given, list) or not given or not all(map(_is_position, given)):
        raise InvalidValueError("positions must be a list of at least one position")
    for position in given:
        if position >= at:
            raise InvalidValueError(
                "positions must be before the question, at %(at)s, but one is: %(position)s", at=at, position=position
            )
    rows = Message.objects.using(conversation._state.db).filter(conversation=conversation, origin=Origin.SAID)
    there = set(rows.filter(position__in=given).values_list("position", flat=True))
    for position in given:
        if position not in there:
            raise InvalidValueError("nothing was said at position %(position)s", position=position)
    return frozenset(given)


def _is_position(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
