"""A turn taken over HTTP, and its errors, as problems and as messages that are safe to show."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, InternalError, OperationalError, ProgrammingError
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from rest_framework.exceptions import APIException

from chatmemory.assistant import (
    Added,
    AnswerDeletedError,
    Assistant,
    CallRefusedError,
    ContextTooLongError,
    ConversationBusyError,
    NothingSaidError,
    TooManyToolInvocationsError,
    Turn,
    TurnLostError,
    Usage,
    WindowTooSmallError,
)
from chatmemory.assistant.turn import TurnEvent
from chatmemory.branches.going_back import HistoryNotKeptError
from chatmemory.branches.ui_messages import answer_id
from chatmemory.core.exceptions import IdempotencyConflictError, MemoryTooLargeError
from chatmemory.core.messages import AiMessage
from chatmemory.database.change import Change, MemorySize
from chatmemory.database.reading import request_bound, rows_of
from chatmemory.formats import MessageFormat
from chatmemory.models import Conversation, Message
from chatmemory.models.branch import BranchTree
from chatmemory.rest.problems import AnswerDeleted, MessageEdited, NothingSaid, Problem, as_api_exception, problem_body
from chatmemory.rest.reader import Reader
from chatmemory.rest.serializers import change_to_data
from chatmemory.rest.turns.history import answer_rows, is_answer, last_question
from chatmemory.rest.turns.opening import AnsweredBeforeError, TurnRequest, opening_of

_logger = logging.getLogger("chatmemory.rest")


class Interrupted(Problem, status=409, code="turn_interrupted"):
    """The turn was interrupted, or took too long and another took over."""

    message = _("The turn was stopped, or took too long. What was said is kept.")


class Overtaken(Problem, status=409, code="turn_overtaken"):
    """The message was said before and not answered, and others were said since."""

    message = _("This message was not answered, and others were said since. Say it again as a new message.")


class WindowTooSmall(Problem, status=409, code="window_too_small"):
    """The message that the model must answer does not fit the window."""


class ContextTooLong(Problem, status=409, code="context_too_long"):
    """The conversation is longer than what the model takes, also after older messages left its memory."""

    message = _(
        "The message is too long for the model, with what must stay beside it. What was said is kept. Say it again in "
        "fewer words."
    )


class CallRefused(Problem, status=403, code="call_refused"):
    """The project refused to call the model, for example because a budget is used up. What was said is kept."""


class ModelFailed(Problem, status=502, code="model_failed"):
    """The model, or what the project's assistant does, failed."""

    message = _("The model failed, so there is no answer yet. What was said is kept. Try again.")


def problem_of_turn(error: Exception) -> Exception:
    """Return the problem that an exception of a turn becomes; errors that are no part of a turn stay as they are.

    The text of an exception of the model, or of the project's code, may name hosts and keys: only the log has it.
    """
    match error:
        case APIException() | Conversation.DoesNotExist():
            return error
        case NothingSaidError():
            return NothingSaid()
        case TurnLostError():
            return Interrupted()
        case CallRefusedError():
            return CallRefused(error)
        case WindowTooSmallError():
            return WindowTooSmall(error)
        case ContextTooLongError():
            _logger.error("The model refused a turn as too long", exc_info=error)
            return ContextTooLong()
        case AnswerDeletedError():
            return AnswerDeleted()
        case TooManyToolInvocationsError():
            _logger.error("A turn ended without an answer", exc_info=error)
            return ModelFailed(
                _("The model called tools again and again, and gave no answer. What was said is kept. Try again.")
            )
        case ConversationBusyError() | HistoryNotKeptError():
            return as_api_exception(error)
        case IdempotencyConflictError() | OperationalError() | ProgrammingError() | InterfaceError() | InternalError():
            if (problem := as_api_exception(error)) is not error:
                return problem
    _logger.error("The model, or the assistant, failed in a turn", exc_info=error)
    return ModelFailed()


def safe_message(error: Exception) -> str:
    """Return the error message for the user of a stream, translated."""
    problem = problem_of_turn(error)
    if isinstance(problem, APIException):
        return str(problem_body(problem)["detail"])
    return gettext("This conversation has been erased.")


_WAIT_FOR_TURN = 0.5
"""Seconds to wait for the turn before: a client that was told of its end may be faster than its end."""


@dataclass(kw_only=True)
class TurnAnswer:
    """The answer of a turn, which is still to come or was given before, and what the turn changed."""

    question: int | None
    """The position of the message that is answered; None if the user said nothing."""

    changes: list[Change]
    """The changes so far, from the user's message on."""

    turn: Turn | None = None
    """The turn to run; None if there is an answer already."""

    message: AiMessage | None = None
    """The answer; None until the turn has been run."""

    rows: Sequence[Message] = ()
    """The stored part of the answer: calls, their results, and the answer itself."""

    usage: Usage | None = None
    """The tokens of the calls of the model so far, as far as they are known."""

    def wait(self, turn: Turn) -> None:
        """Run the turn to its end."""
        turn.is_read = False
        try:
            for event in turn.events():
                self._take(event)
        except Exception as error:
            raise problem_of_turn(error) from error

    def id(self, conversation: Conversation) -> str:
        """Return the ID of the UI message with the answer."""
        is_whole = self.turn is None and self.rows
        return answer_id(BranchTree.read(conversation), self.question, self.rows[-1].position if is_whole else None)

    def read_again(self, conversation: Conversation) -> None:
        """Tell of an answer that was given before: what was added as it is now, and the memory as it is now.

        Which messages left the memory then is not told.
        """
        conversation.refresh_from_db(using=conversation._state.db)
        positions = [row.position for change in self.changes for row in change.added]
        added = rows_of(conversation).filter(position__in=positions).order_by("position") if positions else []
        self.changes = [Change(conversation, added=[*added, *self.rows])]

    def to_data(self, format: MessageFormat, reader: Reader) -> dict[str, Any]:
        """Return the answer, and what the turn changed."""
        assert self.message is not None
        assert format.write_each is not None
        return {
            "answer": format.write_each([reader.message(self.message)])[0],
            **change_to_data(*self.changed(), format, reader),
            "usage": None if self.usage is None else self.usage.to_data(),
        }

    def changed(self) -> tuple[MemorySize, list[Message], list[Message]]:
        """Return the size of the memory, what the turn added, and what it evicted.

        A message that was evicted again is told as it is at the end.
        """
        evicted = [row for change in self.changes for row in change.evicted]
        gone = {row.position: row for row in evicted}
        added = [gone.get(row.position, row) for change in self.changes for row in change.added]
        return self.changes[-1].memory, added, evicted

    def _take(self, event: TurnEvent) -> None:
        if isinstance(event, AiMessage):
            self.message = event
        elif isinstance(event, Added):
            if event.change is not None:
                self.changes.append(event.change)
            if event.usage is not None:
                self.usage = event.usage if self.usage is None else self.usage + event.usage


def take_turn(
    assistant: Assistant,
    conversation: Conversation,
    asked: TurnRequest,
    *,
    key: str | None,
    user: Any,
    context: Any,
    written_by: str,
    record: Callable[[], None],
) -> TurnAnswer:
    """Begin a turn: add what the user says, unless it was said before, and find out whether it was answered.

    Args:
        assistant: who answers.
        conversation: its row.
        asked: what the request asks for.
        key: the idempotency key of the request.
        user: who asks.
        context: for tools.
        written_by: who wrote the message.
        record: records the turn once it is sure: in the transaction that adds the message, if there is one.

    Raises:
        APIException, Conversation.DoesNotExist: there is no such turn.
        MemoryTooLargeError: the memory is, or would be, too large for one request. Nothing was added.
        RuntimeError, TypeError, ImproperlyConfigured: a defect of the project, whose text says what to do.
    """
    opening = opening_of(conversation, asked, key, user)
    said_at, message = opening.said_at, opening.message
    if said_at is not None and said_at != last_question(conversation):
        found = _answer_before(conversation, said_at)
        record()
        return found
    try:
        turn = assistant.begin(
            conversation,
            message,
            idempotency_key=opening.key,
            context=context,
            wait_timeout=_WAIT_FOR_TURN,
            most=request_bound(),
            written_by=written_by,
            also=None if message is None else lambda change: record(),
            go_back=opening.go_back,
        )
    except (RuntimeError, TypeError, ImproperlyConfigured, MemoryTooLargeError):
        raise
    except AnsweredBeforeError as before:
        found = _answered(before.question, before.rows)
        record()
        return found
    except IdempotencyConflictError as error:
        raise (problem_of_turn(error) if key is not None else MessageEdited()) from error
    except Exception as error:
        raise problem_of_turn(error) from error
    try:
        answer = _answer_of(turn, conversation, said_at)
        if message is None:
            record()
        return answer
    except BaseException:
        turn.release()
        raise


def _answer_of(turn: Turn, conversation: Conversation, said_at: int | None) -> TurnAnswer:
    question = turn.question if turn.question is not None else last_question(conversation)
    if said_at is not None and said_at != question:  # another message was said meanwhile
        turn.release()
        return _answer_before(conversation, said_at)
    return TurnAnswer(
        question=question,
        changes=turn.changes,
        turn=turn if turn.answer is None else None,
        message=turn.answer,
        rows=() if turn.answer is None and _is_new(turn) else answer_rows(conversation, question),
    )


def _is_new(turn: Turn) -> bool:
    """Return whether nothing was said after the question, so that no row is part of its answer yet."""
    last = turn.changes[-1] if turn.changes else None
    return last is not None and turn.question is not None and turn.question + 1 == last.conversation.next_position


def _answer_before(conversation: Conversation, question: int) -> TurnAnswer:
    return _answered(question, answer_rows(conversation, question))


def _answered(question: int | None, rows: Sequence[Message]) -> TurnAnswer:
    message = rows[-1].message if rows else None
    if not (isinstance(message, AiMessage) and is_answer(message)):
        raise Overtaken
    return TurnAnswer(question=question, changes=[], message=message, rows=rows)
