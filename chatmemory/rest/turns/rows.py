"""The rows of turns: where each begins, what answers it, and whether an answer is still to come."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from django.db.models import Q

from chatmemory.assistant.turns.opening import running_turn
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, UserMessage
from chatmemory.database.batches import rows_of
from chatmemory.models import Conversation, Message, MessageQuerySet, Origin

__all__ = ["answer_rows", "awaited_turn", "is_answer", "is_question", "last_question", "spoken_rows"]

_COPY = Q(type=UserMessage.type, origin=Origin.COPY)


def spoken_rows(conversation: Conversation) -> MessageQuerySet:
    """Return what was said, without system messages, and the copies of user messages that were asked again."""
    return rows_of(conversation).filter(Q(origin=Origin.SAID) | _COPY).exclude(type=SystemMessage.type)


def is_question(type: str) -> bool:
    """Return whether a turn begins with a spoken row of this type."""
    return type == UserMessage.type


def is_answer(message: ChatMessage | None) -> bool:
    """Return whether a message ends a turn: it is of the model, and calls no tool."""
    return isinstance(message, AiMessage) and not message.tool_execution_requests


def last_question(conversation: Conversation) -> int | None:
    """Return the position of the message that the conversation's last turn answers; None if the user said nothing.

    It may be a copy: one that was asked again after other turns.
    """
    asked = spoken_rows(conversation).filter(type=UserMessage.type).order_by("-position")
    found: int | None = asked.values_list("position", flat=True).first()
    return found


def answer_rows(conversation: Conversation, question: int | None) -> Sequence[Message]:
    """Return what the assistant added to answer a message: its calls, their results and the answer, in order.

    Args:
        conversation: its row.
        question: the position of the message; None for what came before anybody said anything.
    """
    rows = spoken_rows(conversation).filter(position__gt=-1 if question is None else question)
    end = rows.filter(type=UserMessage.type).order_by("position").values_list("position", flat=True).first()
    if end is not None:
        rows = rows.filter(position__lt=end)
    # The next message may have been said between the two statements.
    return list(takewhile(lambda row: row.type != UserMessage.type, rows.order_by("position")))


def awaited_turn(conversation: Conversation) -> int | None:
    """Return the number of the turn that runs now and has a message to answer; None if there is no such turn.

    For a moment, between its beginning and its message, and between its answer and its end, a turn has none.
    """
    number = running_turn(conversation)
    last = None if number is None else spoken_rows(conversation).order_by("-position").first()
    return None if last is None or is_answer(last.message) else number
