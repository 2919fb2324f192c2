"""Errors as RFC 9457 problem details, from this app's views only."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from itertools import islice
from typing import Any

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import DatabaseError
from django.db.models import ProtectedError, RestrictedError
from django.http import Http404, UnreadablePostError
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from rest_framework import exceptions
from rest_framework.exceptions import APIException, ErrorDetail, ParseError, PermissionDenied, ValidationError
from rest_framework.fields import DateTimeField
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler

from chatmemory.assistant.errors import ConversationBusyError
from chatmemory.branches.going_back import HistoryNotKeptError
from chatmemory.core.exceptions import (
    CodedError,
    IdempotencyConflictError,
    InvalidMessageError,
    MemoryTooLargeError,
    NotRetainedError,
    PinnedTooMuchError,
    UnusableSummaryError,
)
from chatmemory.database.connections import is_unavailable, lacks_migration
from chatmemory.database.operations.compact import CoveredError
from chatmemory.formats import UnsupportedContentError
from chatmemory.models import Conversation

PROBLEM_JSON = "application/problem+json"

_TYPE = "urn:chatmemory:problem:"

# Errors quote what was sent, which may be long. These lengths still show what it was and what is expected.
_LONGEST_PLACE = 300
_LONGEST_DETAIL = 600
_MOST_PLACES = 50

# The last two as RFC 9110 has them; Python has had them so since 3.13.
TITLES = {each.value: each.phrase for each in HTTPStatus} | {413: "Content Too Large", 422: "Unprocessable Content"}

_logger = logging.getLogger("chatmemory.rest")

_BY_ERROR: dict[type[CodedError], type[Problem]] = {}


class _CodeOf(str):
    """The code of an error, with that error. DRF makes new details of those that it is given, and keeps their codes."""

    error: CodedError


class Problem(APIException):
    """An error of this API, with a message that is translated for the answer."""

    code: str
    """Which error it is, for programs."""

    message = ""
    """The template of what is wrong, and what to do, unless the error is raised with another."""

    def __init_subclass__(cls, *, status: int, code: str = "", of: type[CodedError] | None = None) -> None:
        """
        Args:
            status: the status of the response.
            code: the ``code``, unless it is that of ``of``.
            of: the errors that become this problem wherever they are raised.
        """
        cls.status_code, cls.code = status, of.code if of else code
        if of:
            _BY_ERROR[of] = cls

    def __init__(
        self, message: str | CodedError = "", /, *, members: dict[str, Any] | None = None, **params: Any
    ) -> None:
        """
        Args:
            message: another template; or an error that has one.
            members: more members of the problem, for programs.
            params: the values of the template's placeholders.
        """
        error = message if isinstance(message, CodedError) else CodedError(message or self.message, **params)
        self.members = members or {}
        super().__init__(_detail(self.code, error))

    @property
    def type(self) -> str:
        """The ``type`` of RFC 9457: the code as a URN."""
        return _TYPE + self.code.replace("_", "-")


class NotFound(Problem, status=404, code="not_found"):
    """There is none, or the user has no access to it."""

    message = _("You have no such conversation.")
    type = "about:blank"


class NotForUsers(Problem, status=403, code="not_for_users"):
    """Users may chat, read, name and erase their conversations, and the call does more: see the setting ``USERS``."""

    message = _("You may not do this with your conversations here.")


class NotRetained(Problem, status=400, of=NotRetainedError):
    """The message is not in the memory."""


class PinnedTooMuch(Problem, status=400, of=PinnedTooMuchError):
    """Pinned messages take, or would take, more than half of the window."""


class Conflict(Problem, status=409, code="memory_id_taken"):
    """The request conflicts with the stored data."""

    message = "There is a conversation with the memory_id %(memory_id)s already. Use it, or take another ID."


class InUse(Problem, status=409, code="in_use"):
    """Other data of the site refer to the conversation, and keep it from being deleted."""

    message = "Other data of this site need it: %(why)s"
    type = "about:blank"


class Covered(Problem, status=409, of=CoveredError):
    """A summary covers these messages already."""


class NoSummarizer(Problem, status=409, code="no_summarizer"):
    """The project has nothing that writes summaries."""

    message = (
        "This site has no summarizer. Send a summary of your own, with through and text; or have "
        'CHATMEMORY["SUMMARIZER"] set on the server.'
    )


class PreconditionFailed(Problem, status=412, code="version_moved"):
    """The resource is not what ``If-Match`` says."""

    message = "It was changed since you read it. Read it again, and decide whether you still want this."


class LengthRequired(Problem, status=411, code="length_required"):
    """The body comes in chunks."""

    message = "Send the body with a Content-Length, not in chunks."
    type = "about:blank"


class TooLarge(Problem, status=413, code="too_large"):
    """The body is larger than a setting allows."""

    message = "%(count)s messages; at most %(most)s are taken at once."


class MemoryTooLarge(Problem, status=413, of=MemoryTooLargeError):
    """The memory is, or would be, larger than settings allow."""


class IdempotencyConflict(Problem, status=422, of=IdempotencyConflictError):
    """The idempotency key was already used with a different request."""


class SummarizerFailed(Problem, status=502, code="summarizer_failed"):
    """The project's summarizer raised, or its text cannot take the place of the messages."""

    message = "The summarizer failed, and nothing was changed: %(why)s."

    def __init__(self, error: Exception, retry_at: datetime | None) -> None:
        # An exception of the project's may name hosts and keys.
        params: dict[str, Any] = {"why": error if isinstance(error, UnusableSummaryError) else type(error).__name__}
        message = self.message
        moment = None
        if retry_at is not None:
            params["moment"] = moment = DateTimeField().to_representation(retry_at)
            message += " Unless you ask for it, it is not tried again before %(moment)s."
        super().__init__(message, members={"retry_at": moment}, **params)


class TurnUnderWay(Problem, status=409, code="turn_under_way"):
    """Another turn of the conversation is under way."""

    wait = 1  # seconds, which REST framework makes the header Retry-After of
    message = _("Another turn of this conversation is under way. Try again when it has ended.")


class MessageEdited(Problem, status=409, code="message_edited"):
    """A message of ``useChat`` has the ID of one that was said before, and says something else."""

    message = _(
        "A message with this ID was already sent with different content. To edit it, send its ID as messageId, too. "
        "To send a new message, use a new ID."
    )


class AnswerDeleted(Problem, status=409, code="answer_deleted"):
    """The message was said before, and its answer may have been deleted."""

    message = _(
        "The message was said before with this key, and later messages have been deleted, perhaps the answer "
        "among them. Send it with a new key to say it again."
    )


class NothingSaid(Problem, status=409, code="nothing_said"):
    """The request has no message, and the memory has none that could be answered."""

    message = _("Nothing was said yet that could be answered. Give a message.")


class HistoryNotKept(Problem, status=409, of=HistoryNotKeptError):
    """The conversation cannot go back, because evicted messages are deleted."""


class NotExpressible(Problem, status=406, code="not_expressible"):
    """The format that was asked for has no place for a message."""

    message = "%(problem)s; ask for format=langchain4j"


class Unavailable(Problem, status=503, code="database_unavailable"):
    """The database does not answer."""

    # The connection may have been lost after the commit, so the change may have been made.
    message = _(
        "The database does not answer, or is too busy. Try again: if it made the change all the same, the same "
        "Idempotency-Key does not make it twice."
    )
    wait = 1


class NotMigrated(Problem, status=500, code="not_migrated"):
    """The database lacks a table or a column of this version of the app."""

    message = _(
        "The database lacks a table or a column. On the server, run: python manage.py migrate. "
        "The server's log says what is missing."
    )


def invalid(place: str, problem: str | CodedError, /, *, code: str | None = None, **params: Any) -> ValidationError:
    """Return a 400 about one value of the body, one parameter or one header.

    Args:
        place: the path to it. Empty for the whole, and for the field that a method of a serializer validates.
        problem: the template of what is wrong, and what is expected; or an error that has one.
        code: one of ``CODES``.
        params: the values of the template's placeholders.
    """
    error = problem if isinstance(problem, CodedError) else CodedError(problem, code=code, **params)
    return ValidationError({place: [_detail(error.code, error)]})


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response to an error; None for a bug, which becomes Django's 500."""
    error = as_api_exception(error)
    response = exception_handler(error, context)
    if response is not None and isinstance(error, APIException):
        response.data = problem_body(error)
    return response


def problem_body(error: APIException) -> dict[str, Any]:
    """Return the problem details of an error, in the active language.

    Only errors of this app are translated here. Others have the text that they were raised with.
    """
    detail: Any = error.detail
    if isinstance(error, ValidationError):
        errors = [
            {"place": _shown(place, _LONGEST_PLACE), **_told(each, error, _LONGEST_DETAIL)}
            for place, each in islice(_places(detail), _MOST_PLACES)
        ]
        said = [f"{each['place']}: {each['detail']}" if each["place"] else each["detail"] for each in errors]
        whole = "; ".join(said) or str(error.default_detail)
        told = {"code": "invalid", "detail": _shown(whole, 2 * _LONGEST_DETAIL), "params": {}, "errors": errors}
    else:
        if isinstance(detail, dict) and "detail" in detail:  # as DRF answers it
            detail = detail["detail"]
        if isinstance(detail, (dict, list)):
            detail = "; ".join(str(each) for _place, each in _places(detail)) or error.default_detail
        told = _told(detail, error, 2 * _LONGEST_DETAIL)
    return {
        # A project's errors may have a type and members, too.
        "type": getattr(error, "type", f"{_TYPE}invalid" if "errors" in told else "about:blank"),
        "title": TITLES.get(error.status_code, "Error"),
        "status": error.status_code,
        **told,
        **getattr(error, "members", {}),
    }


def as_api_exception(error: Exception) -> Exception:
    """Return the exception of REST framework that an error becomes; a bug stays as it is."""
    for kind, problem in _BY_ERROR.items():
        if isinstance(error, kind):
            return problem(error)
    match error:
        case InvalidMessageError():
            return invalid(error.place, error)
        case UnsupportedContentError():
            return NotExpressible(problem=error)
        case ConversationBusyError():
            return TurnUnderWay()
        case Conversation.DoesNotExist():
            return exceptions.NotFound()
        case Http404():
            return exceptions.NotFound(str(error) or None)
        case DjangoPermissionDenied():
            return PermissionDenied(str(error) or None)
        case ProtectedError() | RestrictedError():
            return InUse(why=str(error.args[0]))
        case DatabaseError() if lacks_migration(error):
            _logger.error("A request failed because the database lacks a migration", exc_info=error)
            return NotMigrated()
        case Exception() if is_unavailable(error):
            _logger.error("A request failed for the database", exc_info=error)
            return Unavailable()
        case RequestDataTooBig():
            return TooLarge("%(why)s", why=str(error))
        case SuspiciousOperation() | BadRequest() | UnreadablePostError():
            return ParseError("The request cannot be read.")
    return error


def _places(detail: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Return the paths and texts in the detail of DRF's ``ValidationError``."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            if isinstance(key, int):  # of an item
                here = f"{place}[{key}]"
            elif key in ("", api_settings.NON_FIELD_ERRORS_KEY):
                here = place
            else:
                here = f"{place}.{key}" if place else str(key)
            yield from _places(value, here)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):  # of errors; or of the details of each item
            yield from _places(value, f"{place}[{index}]" if isinstance(value, (dict, list)) else place)
    else:
        yield place, detail


def _detail(code: str, error: CodedError) -> ErrorDetail:
    kept = _CodeOf(code)
    kept.error = error
    return ErrorDetail(str(error), kept)


def _told(detail: Any, raised: APIException, most: int) -> dict[str, Any]:
    code = getattr(detail, "code", None) or raised.default_code
    if isinstance(code, _CodeOf):
        text, params = code.error.text(gettext), code.error.params
    else:
        text, params = str(detail), {}
    return {
        "code": _shown(str(code), _LONGEST_PLACE),
        "detail": _shown(text, most),
        "params": {name: _plain(value, most) for name, value in params.items()},
    }


def _plain(value: Any, most: int) -> Any:
    """Return a parameter as JSON."""
    if isinstance(value, (list, tuple)):
        return [_plain(each, most) for each in value[:_MOST_PLACES]]
    if isinstance(value, CodedError):
        value = value.text()  # without the field path that some have
    return value if value is None or isinstance(value, (bool, int, float)) else _shown(str(value), most)


def _shown(text: str, most: int) -> str:
    """Return ``text`` as UTF-8 can have it, without its middle if it is too long: mostly its end says what to do."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 + 1 :]}"
