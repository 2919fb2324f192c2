"""The errors of a turn, as problems and as messages that are safe to show."""

from __future__ import annotations

import logging

from django.db import InterfaceError, InternalError, OperationalError, ProgrammingError
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
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
from chatmemory.models import Conversation
from chatmemory.rest.problems import Problem, as_api_exception, problem_body

_logger = logging.getLogger("chatmemory.rest")


class TurnUnderWay(Problem, status=409, code="turn_under_way"):
    """Another turn of the conversation is under way."""

    wait = 1  # seconds, which REST framework makes the header Retry-After of
    message = _("Another turn of this conversation is under way. Try again when it has ended.")


class Interrupted(Problem, status=409, code="turn_interrupted"):
    """The turn was interrupted, or took too long and another took over."""

    message = _("The turn was stopped, or took too long. What was said is kept.")


class Overtaken(Problem, status=409, code="turn_overtaken"):
    """The message was said before and not answered, and others were said since."""

    message = _("This message was not answered, and others were said since. Say it again as a new message.")


class MessageEdited(Problem, status=409, code="message_edited"):
    """A message of ``useChat`` has the ID of one that was said before, and says something else."""

    message = _(
        "A message with this ID was already sent with different content. Messages cannot be edited. Send it as "
        "a new message, with a new ID."
    )


class AnswerDeleted(Problem, status=409, code="answer_deleted"):
    """The message was said before, and its answer may have been deleted."""

    message = _(
        "The message was said before with this key, and later messages have been deleted, perhaps the answer "
        "among them. Send it with a new key to say it again."
    )


class WindowTooSmall(Problem, status=409, code="window_too_small"):
    """The message that the model is to answer does not fit the window."""


class NothingSaid(Problem, status=409, code="nothing_said"):
    """The request has no message, and the memory has none that could be answered."""

    message = _("Nothing was said yet that could be answered. Give a message.")


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
        case IdempotencyConflictError() | OperationalError() | ProgrammingError() | InterfaceError() | InternalError():
            if (problem := as_api_exception(error)) is not error:
                return problem
    _logger.error("The model, or the assistant, failed in a turn", exc_info=error)
    return ModelFailed()


def safe_message(error: Exception) -> str:
    """Return the message that the user of a stream reads in place of an answer, translated."""
    problem = problem_of_turn(error)
    if isinstance(problem, APIException):
        return str(problem_body(problem)["detail"])
    return gettext("This conversation has been erased.")
