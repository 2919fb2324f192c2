"""What went wrong, as RFC 9457 problem details."""

from __future__ import annotations

from typing import Any

from chatmemory.models import MAX_LIMIT
from chatmemory.rest import problems
from chatmemory.rest.openapi.shapes import Schema, closed, list_of, ref, text, whole

__all__ = ["PROBLEM", "PROBLEM_RESPONSES"]

PROBLEM = closed(
    {
        "type": text(
            "about:blank, or what kind of problem it is: `urn:chatmemory:problem:` and then invalid, memory-id-taken, "
            "version-moved, too-large, idempotency-key-reused, not-expressible or database-unavailable."
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
        "conversation": {"type": "string", "format": "uri", "description": "With status 409: the one that is there."},
        "version": whole(0, MAX_LIMIT, "With status 412: of the memory now."),
        "etag": text("With status 412: the ETag to send now."),
    },
    "Something is wrong (RFC 9457).",
)

_WAIT = {
    "Retry-After": {"description": "Seconds to wait.", "required": True, "schema": {"type": "integer", "minimum": 0}}
}


def _response(name: str, status: int, description: str, detail: str, type: str = "about:blank", **more: Any) -> Schema:
    headers = more.pop("headers", None)
    value = {"type": type, "title": problems.TITLES[status], "status": status, "detail": detail, **more}
    return {
        "description": description,
        **({"headers": headers} if headers else {}),
        "content": {problems.PROBLEM_JSON: {"schema": ref("Problem"), "examples": {name: {"value": value}}}},
    }


_INVALID = "messages[1].contents[0].text"

PROBLEM_RESPONSES: dict[int, tuple[str, Schema]] = {
    400: (
        "Invalid",
        _response(
            "Invalid",
            400,
            "The body, a parameter or a header is wrong. Nothing was changed.",
            f"{_INVALID}: expected a string, got a number",
            "urn:chatmemory:problem:invalid",
            errors=[{"place": _INVALID, "detail": "expected a string, got a number"}],
        ),
    ),
    401: ("NotSignedIn", _response("NotSignedIn", 401, "Sign in.", "Authentication credentials were not provided.")),
    403: (
        "Forbidden",
        _response(
            "Forbidden",
            403,
            "You may not, or the CSRF token is missing; with sessions also: sign in.",
            "CSRF Failed: CSRF token missing.",
        ),
    ),
    404: (
        "NotFound",
        _response("NotFound", 404, "There is none, or it is not yours.", "You have no such conversation."),
    ),
    406: (
        "NotExpressible",
        _response(
            "NotExpressible",
            406,
            "`?format=openai` has no place for something that was said, or the Accept header wants no JSON.",
            "message 0 (CUSTOM): OpenAI has no such messages; ask for format=langchain4j",
            "urn:chatmemory:problem:not-expressible",
        ),
    ),
    409: (
        "MemoryIdTaken",
        _response(
            "MemoryIdTaken",
            409,
            "You have a conversation with this `memory_id` already.",
            "There is a conversation with the memory_id 'support-42' already. Use it, or take another ID.",
            problems.Conflict.type,
            conversation="https://example.com/api/conversations/01935c5e-0000-7000-8000-000000000001/",
        ),
    ),
    411: (
        "LengthRequired",
        _response(
            "LengthRequired",
            411,
            "The body comes in chunks, without a `Content-Length`.",
            "Send the body with a Content-Length.",
        ),
    ),
    412: (
        "VersionMoved",
        _response(
            "VersionMoved",
            412,
            "It is not as `If-Match` says. Nothing was changed.",
            "It was changed since you read it. Read it again, and decide whether you still want this.",
            problems.PreconditionFailed.type,
            version=7,
            etag='"7"',
        ),
    ),
    413: (
        "TooLarge",
        _response(
            "TooLarge",
            413,
            "More messages or bytes than the server takes at once.",
            "101 messages; at most 100 are taken at once.",
            problems.TooLarge.type,
        ),
    ),
    415: (
        "NotJson",
        _response("NotJson", 415, "The body is no JSON.", 'Unsupported media type "text/plain" in request.'),
    ),
    422: (
        "IdempotencyKeyReused",
        _response(
            "IdempotencyKeyReused",
            422,
            "The `Idempotency-Key` came before, with another request.",
            "idempotency key 'a' was used before, with another request; take a new key",
            "urn:chatmemory:problem:idempotency-key-reused",
        ),
    ),
    429: (
        "TooOften",
        _response(
            "TooOften",
            429,
            "Too many requests.",
            "Request was throttled. Expected available in 12 seconds.",
            headers=_WAIT,
        ),
    ),
    503: (
        "DatabaseUnavailable",
        _response(
            "DatabaseUnavailable",
            503,
            "The database does not answer, or is too busy. It may have made the change all the same.",
            "The database does not answer, or is too busy. Try again: if it made the change all the same, the same "
            "Idempotency-Key does not make it twice.",
            "urn:chatmemory:problem:database-unavailable",
            headers=_WAIT,
        ),
    ),
}
