"""The answers to errors: RFC 9457 problem details."""

from __future__ import annotations

from django.utils.translation import override
from rest_framework.exceptions import (
    APIException,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    Throttled,
    UnsupportedMediaType,
)

from chatmemory.models import MAX_LIMIT
from chatmemory.rest import problems
from chatmemory.rest.openapi.parameters import ANSWER_HEADERS
from chatmemory.rest.openapi.shapes import MOMENT, Schema, closed, list_of, or_null, ref, text, whole
from chatmemory.rest.turns.problems import ModelFailed, TurnUnderWay

__all__ = ["PROBLEM", "PROBLEM_RESPONSES"]

PROBLEM = closed(
    {
        "type": text(
            "about:blank, or what kind of problem it is: `urn:chatmemory:problem:` and then invalid, not-retained, "
            "pinned-too-much, memory-id-taken, already-summarized, no-summarizer, version-moved, too-large, "
            "memory-too-large, idempotency-key-reused, not-expressible, summarizer-failed, database-unavailable, "
            "not-migrated; of turns: turn-under-way, turn-interrupted, turn-overtaken, message-edited, "
            "answer-deleted, window-too-small, nothing-said or model-failed."
        ),
        "title": text("The words of the status."),
        "status": whole(400, 599),
        "detail": text("What is wrong, for people."),
    },
    {
        "errors": list_of(
            closed({"place": text("Such as messages[1].contents[0].text; empty for the whole."), "detail": text()}),
            "With status 400: every place that is wrong.",
        ),
        "conversation": {
            "type": "string",
            "format": "uri",
            "description": "The one that has a memory_id that is taken.",
        },
        "version": whole(0, MAX_LIMIT, "With status 412: of the memory now."),
        "etag": text("With status 412: the ETag to send now."),
        "retry_at": {
            **or_null(MOMENT),
            "description": "With status 502: a summary that is due is not tried again before.",
        },
    },
    "Something is wrong (RFC 9457).",
)

with override("en"):  # REST framework translates what it says
    _ERRORS: dict[str, tuple[str, APIException]] = {
        "Invalid": (
            "The body, a parameter or a header is wrong. Nothing was changed.",
            problems.invalid("messages[1].contents[0].text", "expected a string, got a number"),
        ),
        "NotSignedIn": ("Sign in.", NotAuthenticated()),
        "Forbidden": (
            "You may not, or the CSRF token is missing; with sessions also: sign in.",
            PermissionDenied("CSRF Failed: CSRF token missing."),
        ),
        "NotFound": ("There is none, or it is not yours.", NotFound("You have no such conversation.")),
        "NotExpressible": (
            "`?format=openai` has no place for something that was said, or the Accept header wants no JSON.",
            problems.NotExpressible("message 0 (CUSTOM): OpenAI has no such messages; ask for format=langchain4j"),
        ),
        "MemoryIdTaken": (
            "You have a conversation with this `memory_id` already.",
            problems.Conflict(
                "There is a conversation with the memory_id 'support-42' already. Use it, or take another ID.",
                conversation="https://example.com/api/conversations/01935c5e-0000-7000-8000-000000000001/",
            ),
        ),
        "NotSummarized": (
            "There is nothing up to `through` that no summary stands for (`already-summarized`); or the request has no "
            "`text`, and this site has no summarizer (`no-summarizer`).",
            problems.Covered(
                "through is 41, but no message up to there can be summarised: a summary stands for all before 42, or "
                "they are pinned, or somebody took them out"
            ),
        ),
        "LengthRequired": (
            "The body comes in chunks, without a `Content-Length`.",
            problems.LengthRequired("Send the body with a Content-Length, not in chunks."),
        ),
        "VersionMoved": (
            "It is not as `If-Match` says. Nothing was changed.",
            problems.PreconditionFailed(
                "It was changed since you read it. Read it again, and decide whether you still want this.",
                version=7,
                etag='"7"',
            ),
        ),
        "TooLarge": (
            "More messages or bytes than the server takes at once, or a memory that is larger than it handles.",
            problems.TooLarge("101 messages; at most 100 are taken at once."),
        ),
        "NotJson": ("The body is no JSON.", UnsupportedMediaType("text/plain")),
        "IdempotencyKeyReused": (
            "The `Idempotency-Key` came before, with another request.",
            problems.IdempotencyConflict("idempotency key 'a' was used before, with another request; take a new key"),
        ),
        "TooOften": ("Too many requests.", Throttled(wait=12)),
        "SummarizerFailed": (
            "This site's summarizer failed, or its text is of no use. Nothing was changed.",
            problems.SummarizerFailed(TimeoutError(), None),
        ),
        "TurnUnderWay": (
            "Another turn of this conversation is under way; or this one was interrupted, or has a message that does "
            "not fit the window, or was overtaken by others, or has the ID of a message that says something else, or "
            "whose answer was deleted since.",
            TurnUnderWay(),
        ),
        "ModelFailed": ("The model failed. What was said is kept, and the turn can be retried.", ModelFailed()),
        "DatabaseUnavailable": (
            "The database does not answer, or is too busy. It may have made the change all the same.",
            problems.Unavailable(),
        ),
    }


def _response(name: str, description: str, error: APIException) -> Schema:
    example = {"schema": ref("Problem"), "examples": {name: {"value": problems.problem_body(error)}}}
    # Of the conflicts of a turn only one is over after a while.
    retry_after = {**ANSWER_HEADERS["Retry-After"], "required": not isinstance(error, TurnUnderWay)}
    headers = {"headers": {"Retry-After": retry_after}} if hasattr(error, "wait") else {}
    return {"description": description, **headers, "content": {problems.PROBLEM_JSON: example}}


PROBLEM_RESPONSES = {
    name: (error.status_code, _response(name, description, error)) for name, (description, error) in _ERRORS.items()
}
"""The status and the component of each error, by its name."""
