"""The errors of a turn, as problems and as messages that are safe to show."""

from __future__ import annotations

import logging

from django.db import DatabaseError
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from rest_framework import status
from rest_framework.exceptions import APIException

from chatmemory.assistant import (
    AnswerDeletedError,
    ConversationBusyError,
    NothingSaidError,
    TooManyToolInvocationsError,
    TurnLostError,
    WindowTooSmallError,
)
from chatmemory.core.exceptions import IdempotencyConflictError
from chatmemory.database.connections import is_unavailable, lacks_migration
from chatmemory.models import Conversation
from chatmemory.rest.problems import IdempotencyConflict, NotMigrated, Problem, Unavailable, problem_body

__all__ = [
    "AnswerDeleted",
    "MessageEdited",
    "ModelFailed",
    "Overtaken",
    "TurnUnderWay",
    "problem_of_turn",
    "safe_message",
]

_logger = logging.getLogger("chatmemory.rest")


class TurnUnderWay(Problem):
    """Another turn of the conversation is under way."""

    status_code = status.HTTP_409_CONFLICT
    code = "turn_under_way"
    wait = 1  # seconds, which REST framework makes the header Retry-After of
    message = _("Another turn of this conversation is under way. Try again when it has ended.")


class Interrupted(Problem):
    """The turn was interrupted, or took too long and another took over."""

    status_code = status.HTTP_409_CONFLICT
    code = "turn_interrupted"
    message = _("The turn was stopped, or took too long. What was said is kept.")


class Overtaken(Problem):
    """The message was said before and not answered, and others were said since."""

    status_code = status.HTTP_409_CONFLICT
    code = "turn_overtaken"
    message = _("This message was not answered, and others were said since. Say it again as a new message.")


class MessageEdited(Problem):
    """A message of ``useChat`` has the ID of one that was said before, and says something else."""

    status_code = status.HTTP_409_CONFLICT
    code = "message_edited"
    message = _(
        "A message with this ID was already sent with different content. Messages cannot be edited. Send it as "
        "a new message, with a new ID."
    )


class AnswerDeleted(Problem):
    """The message was said before, and its answer may have been deleted."""

    status_code = status.HTTP_409_CONFLICT
    code = "answer_deleted"
    message = _(
        "The message was said before with this key, and later messages have been deleted, perhaps the answer "
        "among them. Send it with a new key to say it again."
    )


class WindowTooSmall(Problem):
    """The message that the model is to answer does not fit the window."""

    status_code = status.HTTP_409_CONFLICT
    code = "window_too_small"


class NothingSaid(Problem):
    """The request has no message, and the memory has none that could be answered."""

    status_code = status.HTTP_409_CONFLICT
    code = "nothing_said"
    message = _("Nothing was said yet that could be answered. Give a message.")


class ModelFailed(Problem):
    """The model, or what the project's assistant does, failed."""

    status_code = status.HTTP_502_BAD_GATEWAY
    code = "model_failed"
    message = _("The model failed, so there is no answer yet. What was said is kept. Try again.")


def problem_of_turn(error: Exception) -> Exception:
    """Return the problem that an exception of a turn becomes; errors that are no part of a turn stay as they are.

    The text of an exception of the model, or of the project's code, may name hosts and keys: only the log has it.
    """
    match error:
        case APIException() | Conversation.DoesNotExist():
            return error
        case ConversationBusyError():
            return TurnUnderWay()
        case NothingSaidError():
            return NothingSaid()
        case TurnLostError():
            return Interrupted()
        case WindowTooSmallError():
            return WindowTooSmall(error)
        case AnswerDeletedError():
            return AnswerDeleted()
        case TooManyToolInvocationsError():
            _logger.error("A turn ended without an answer", exc_info=error)
            return ModelFailed(
                _("The model called tools again and again, and gave no answer. What was said is kept. Try again.")
            )
        case IdempotencyConflictError():
            return IdempotencyConflict(error)
        case DatabaseError() if lacks_migration(error):
            _logger.error("A turn failed because the database lacks a migration", exc_info=error)
            return NotMigrated()
        case Exception() if is_unavailable(error):
            _logger.error("A turn failed for the database", exc_info=error)
            return Unavailable()
    _logger.error("The model, or the assistant, failed in a turn", exc_info=error)
    return ModelFailed()


def safe_message(error: Exception) -> str:
    """Return the message that the user of a stream reads in place of an answer, translated."""
    problem = problem_of_turn(error)
    if isinstance(problem, APIException):
        return str(problem_body(problem)["detail"])
    return gettext("This conversation has been erased.")
