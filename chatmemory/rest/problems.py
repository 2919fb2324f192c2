"""Errors as RFC 9457 problem details, from this app's views only."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import DatabaseError
from django.db.models import ProtectedError, RestrictedError
from django.http import Http404, UnreadablePostError
from rest_framework import status
from rest_framework.exceptions import APIException, NotFound, ParseError, PermissionDenied, ValidationError
from rest_framework.fields import DateTimeField
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler

from chatmemory.core.exceptions import (
    IdempotencyConflictError,
    InvalidMessageError,
    NotRetainedError,
    PinnedTooMuchError,
    UnusableSummaryError,
)
from chatmemory.database.errors import is_unavailable, lacks_migration
from chatmemory.formats import UnsupportedContentError
from chatmemory.models import Conversation
from chatmemory.rest.status_titles import status_title
from chatmemory.rest.translation import translated

__all__ = [
    "PROBLEM_JSON",
    "Conflict",
    "Covered",
    "IdempotencyConflict",
    "LengthRequired",
    "MemoryTooLarge",
    "NoSummarizer",
    "NotExpressible",
    "NotMigrated",
    "NotRetained",
    "PinnedTooMuch",
    "PreconditionFailed",
    "SummarizerFailed",
    "TooLarge",
    "Unavailable",
    "invalid",
    "problem_body",
    "problem_response",
]

PROBLEM_JSON = "application/problem+json"

# Errors quote what was sent, which may be long. These lengths still show what it was and what is expected.
_LONGEST_PLACE = 300
_LONGEST_DETAIL = 600
_MOST_PLACES = 50

_logger = logging.getLogger("chatmemory.rest")


class Problem(APIException):
    """An error with its own ``type``, so that a client can tell it from other errors with the same status."""

    type = "about:blank"

    def __init__(self, detail: str, **members: Any) -> None:
        """
        Args:
            detail: what is wrong, and what to do.
            members: more of it, for programs.
        """
        super().__init__(detail)
        self.members = members


class NotRetained(Problem):
    """The message is not in the memory."""

    status_code = status.HTTP_400_BAD_REQUEST
    type = "urn:chatmemory:problem:not-retained"


class PinnedTooMuch(Problem):
    """Pinned messages take, or would take, more than half of the window."""

    status_code = status.HTTP_400_BAD_REQUEST
    type = "urn:chatmemory:problem:pinned-too-much"


class Conflict(Problem):
    """The request conflicts with the stored data."""

    status_code = status.HTTP_409_CONFLICT
    type = "urn:chatmemory:problem:memory-id-taken"


class Covered(Problem):
    """A summary stands for these messages already."""

    status_code = status.HTTP_409_CONFLICT
    type = "urn:chatmemory:problem:already-summarized"


class NoSummarizer(Problem):
    """The project has nothing that writes summaries."""

    status_code = status.HTTP_409_CONFLICT
    type = "urn:chatmemory:problem:no-summarizer"

    def __init__(self) -> None:
        super().__init__(
            "This site has no summarizer. Send a summary of your own, with through and text; or have "
            'CHATMEMORY["SUMMARIZER"] set on the server.'
        )


class PreconditionFailed(Problem):
    """The resource is not what ``If-Match`` says."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    type = "urn:chatmemory:problem:version-moved"


class LengthRequired(Problem):
    """The body comes in chunks."""

    status_code = status.HTTP_411_LENGTH_REQUIRED


class TooLarge(Problem):
    """The body is larger than a setting allows."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    type = "urn:chatmemory:problem:too-large"


class MemoryTooLarge(TooLarge):
    """The memory is, or would be, larger than settings allow."""

    type = "urn:chatmemory:problem:memory-too-large"


class IdempotencyConflict(Problem):
    """The idempotency key came before, with another request."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    type = "urn:chatmemory:problem:idempotency-key-reused"


class SummarizerFailed(Problem):
    """The project's summarizer raised, or its text cannot take the place of the messages."""

    status_code = status.HTTP_502_BAD_GATEWAY
    type = "urn:chatmemory:problem:summarizer-failed"

    def __init__(self, error: Exception, retry_at: datetime | None) -> None:
        # An exception of the project's may name hosts and keys.
        why = str(error) if isinstance(error, UnusableSummaryError) else type(error).__name__
        moment = None if retry_at is None else DateTimeField().to_representation(retry_at)
        if moment is None:
            detail = f"The summarizer failed, and nothing was changed: {why}."
        else:
            detail = (
                f"The summarizer failed, and nothing was changed: {why}. "
                f"Unless you ask for it, it is not tried again before {moment}."
            )
        super().__init__(detail, retry_at=moment)


class NotExpressible(Problem):
    """The format that was asked for has no place for a message."""

    status_code = status.HTTP_406_NOT_ACCEPTABLE
    type = "urn:chatmemory:problem:not-expressible"


class Unavailable(Problem):
    """The database does not answer."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    type = "urn:chatmemory:problem:database-unavailable"
    wait = 1

    def __init__(self) -> None:
        # The connection may have been lost after the commit, so the change may have been made.
        super().__init__(
            "The database does not answer, or is too busy. Try again: if it made the change all the same, the same "
            "Idempotency-Key does not make it twice."
        )


class NotMigrated(Problem):
    """The database lacks a table or a column of this version of the app."""

    status_code = status.HTTP_500_INTERNAL_SERVER_ERROR
    type = "urn:chatmemory:problem:not-migrated"

    def __init__(self) -> None:
        super().__init__(
            "The database lacks a table or a column. On the server, run: python manage.py migrate. "
            "The server's log says what is missing."
        )


def invalid(place: str, problem: str) -> ValidationError:
    """Return a 400 about one place of the body, one parameter or one header."""
    return ValidationError({place: [problem]})


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response to an error; None for a bug, which becomes Django's 500."""
    error = _as_api_exception(error)
    response = exception_handler(error, context)
    if response is None or not isinstance(error, APIException):
        return response
    response.data = problem_body(error)
    return response


def problem_body(error: APIException) -> dict[str, Any]:
    """Return the problem details of an error, in the active language."""
    places = list(islice(_places(error.detail), _MOST_PLACES)) if isinstance(error, ValidationError) else []
    return {
        "type": getattr(error, "type", "urn:chatmemory:problem:invalid" if places else "about:blank"),
        "title": status_title(error.status_code),
        "status": error.status_code,
        "detail": _detail(error, places),
        **({"errors": places} if places else {}),
        **getattr(error, "members", {}),
    }


def _as_api_exception(error: Exception) -> Exception:
    match error:
        case InvalidMessageError():
            return invalid(error.place, error.problem)
        case NotRetainedError():
            return NotRetained(str(error))
        case PinnedTooMuchError():
            return PinnedTooMuch(str(error))
        case IdempotencyConflictError():
            return IdempotencyConflict(str(error))
        case UnsupportedContentError():
            return NotExpressible(f"{error}; ask for format=langchain4j")
        case Conversation.DoesNotExist():
            return NotFound()
        case Http404():
            return NotFound(str(error) or None)
        case DjangoPermissionDenied():
            return PermissionDenied(str(error) or None)
        case ProtectedError() | RestrictedError():
            return Conflict(f"Other data of this site need it: {error.args[0]}", type="about:blank")
        case DatabaseError() if lacks_migration(error):
            _logger.error("A request failed because the database lacks a migration", exc_info=error)
            return NotMigrated()
        case Exception() if is_unavailable(error):
            _logger.error("A request failed for the database", exc_info=error)
            return Unavailable()
        case RequestDataTooBig():
            return TooLarge(str(error))
        case SuspiciousOperation() | BadRequest() | UnreadablePostError():
            return ParseError("The request cannot be read.")
    return error


def _places(detail: Any, place: str = "") -> Iterator[dict[str, str]]:
    if isinstance(detail, dict):
        for key, value in detail.items():
            here = "" if key == api_settings.NON_FIELD_ERRORS_KEY else str(key)
            yield from _places(value, f"{place}.{here}" if place and here else place or here)
    elif isinstance(detail, list):
        for value in detail:
            yield from _places(value, place)
    else:
        yield {"place": _cut(place, _LONGEST_PLACE), "detail": translated(_cut(str(detail), _LONGEST_DETAIL))}


def _detail(error: APIException, places: list[dict[str, str]]) -> str:
    if places:
        whole = "; ".join(f"{each['place']}: {each['detail']}" if each["place"] else each["detail"] for each in places)
    else:
        detail = error.detail
        said = str(detail.get("detail", detail) if isinstance(detail, dict) else detail)
        whole = translated(_cut(said, 2 * _LONGEST_DETAIL))
    return _cut(whole, 2 * _LONGEST_DETAIL)


def _cut(text: str, most: int) -> str:
    """Return ``text``, without its middle if it is too long: mostly its end says what is expected."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 + 1 :]}"
