"""The beginning of a turn that a request asks for, or the answer that was given before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chatmemory.assistant import Assistant
from chatmemory.assistant.begun import BegunTurn
from chatmemory.core.exceptions import IdempotencyConflictError
from chatmemory.core.messages import AiMessage, UserMessage
from chatmemory.core.numbers import whole_number
from chatmemory.database.batches import rows_of
from chatmemory.database.change import Change
from chatmemory.database.idempotency import keys_of
from chatmemory.models import MAX_LIMIT, Conversation, Message, Origin
from chatmemory.rest.turns.bodies import AskedTurn
from chatmemory.rest.turns.problems import AnswerDeleted, MessageEdited, Overtaken, problem_of_turn
from chatmemory.rest.turns.rows import answer_rows, is_answer, last_question

__all__ = ["TakenTurn", "take_turn"]

_WAIT_FOR_TURN = 0.5
"""Seconds to wait for the turn before: a client that was told of its end may be faster than its end."""


@dataclass(frozen=True, kw_only=True)
class TakenTurn:
    """A turn that is to be run, or one that ended before."""

    question: int | None
    """The position of the message that it answers; None if the user said nothing."""

    changes: Sequence[Change]
    """The accounts of the additions so far."""

    begun: BegunTurn | None = None
    """The turn to run; None if there is an answer already."""

    answer: AiMessage | None = None
    """The answer that was there; None if the turn is to be run."""

    rows: Sequence[Message] = ()
    """The rows of that answer: calls, their results, and itself; or what a turn that goes on has of it already."""


def take_turn(
    assistant: Assistant, conversation: Conversation, asked: AskedTurn, *, key: str | None, context: Any
) -> TakenTurn:
    """Begin a turn: add what the user says, unless it was said before, and find out whether it was answered.

    Args:
        assistant: who answers.
        conversation: its row.
        asked: what the request asks for.
        key: the idempotency key of the request.
        context: for tools.

    Raises:
        APIException, Conversation.DoesNotExist: there is no such turn.
        RuntimeError, TypeError: a defect of the project, whose text says what to do.
    """
    said_at = None if key is not None else _position_of(conversation, asked)
    if said_at is not None and said_at != last_question(conversation):
        return _said_before(conversation, said_at)
    message = None if said_at is not None else asked.message
    try:
        turn = assistant.begin(
            conversation,
            message,
            # To go on from where a conversation stands needs no key: it stands at the answer when there is one.
            idempotency_key=None if message is None else key or asked.key,
            context=context,
            wait_timeout=_WAIT_FOR_TURN,
        )
    except (RuntimeError, TypeError):
        raise
    except IdempotencyConflictError as error:
        raise (problem_of_turn(error) if key is not None else MessageEdited()) from error
    except Exception as error:
        raise problem_of_turn(error) from error
    try:
        return _taken(turn, conversation, said_at)
    except BaseException:
        turn.release()
        raise


def _taken(turn: BegunTurn, conversation: Conversation, said_at: int | None) -> TakenTurn:
    question = turn.question if turn.question is not None else last_question(conversation)
    if said_at is not None and said_at != question:  # another message was said meanwhile
        turn.release()
        return _said_before(conversation, said_at)
    if turn.answer is None and _is_new(turn):
        return TakenTurn(question=question, changes=turn.changes, begun=turn)
    rows = answer_rows(conversation, question)
    if turn.answer is None:
        return TakenTurn(question=question, changes=turn.changes, begun=turn, rows=rows)
    return TakenTurn(question=question, changes=turn.changes, answer=turn.answer, rows=rows)


def _is_new(turn: BegunTurn) -> bool:
    """Return whether nothing was said after the question, so that no row is part of its answer yet."""
    last = turn.changes[-1] if turn.changes else None
    return last is not None and turn.question is not None and turn.question + 1 == last.conversation.next_position


def _position_of(conversation: Conversation, asked: AskedTurn) -> int | None:
    """Return where a message of ``useChat`` was said, if its ID is the one that ``GET turns/`` gave it.

    It may have been said without a key, so its position is all that is known of it.

    Raises:
        MessageEdited: it says something else than what was said there.
        AnswerDeleted: what was said there has been deleted.
    """
    position = None if asked.key is None else whole_number(asked.key, most=MAX_LIMIT)
    if position is None or position >= conversation.next_position:
        return None
    row = rows_of(conversation).filter(position=position).first()
    if row is not None and (row.type, row.origin) != (UserMessage.type, Origin.SAID):
        return None
    said = None if row is None else row.message
    if isinstance(said, UserMessage) and asked.message is not None and said.contents == asked.message.contents:
        return position
    # A client that numbers its messages itself means no position. Longer numbers, such as times, are none of these.
    digits = len(str(conversation.next_position))
    if keys_of(conversation).filter(key__regex=f"^[0-9]{{1,{digits}}}$").exists():
        return None
    raise AnswerDeleted if row is None else MessageEdited


def _said_before(conversation: Conversation, question: int) -> TakenTurn:
    rows = answer_rows(conversation, question)
    answer = rows[-1].message if rows else None
    if not (isinstance(answer, AiMessage) and is_answer(answer)):
        raise Overtaken
    return TakenTurn(question=question, changes=(), answer=answer, rows=rows)
