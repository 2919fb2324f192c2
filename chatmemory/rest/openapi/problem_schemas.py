"""The answers to errors: RFC 9457 problem details. What there is, the classes of errors say."""

from __future__ import annotations

from http import HTTPStatus

from django.utils.translation import override
from rest_framework import exceptions

from chatmemory.core.exceptions import CODES
from chatmemory.formats.json_schema import Schema, closed, list_of, or_null, text
from chatmemory.rest import problems
from chatmemory.rest.openapi.parameters import ANSWER_HEADERS
from chatmemory.rest.turns import problems as turn_problems

__all__ = ["PROBLEM", "problem_response"]

# What REST framework raises.
_OTHERS: tuple[type[exceptions.APIException], ...] = (
    exceptions.ValidationError,
    exceptions.ParseError,
    exceptions.NotAuthenticated,
    exceptions.PermissionDenied,
    exceptions.NotAcceptable,
    exceptions.UnsupportedMediaType,
    exceptions.Throttled,
)


_OURS = {
    each
    for module in (problems, turn_problems)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, problems.Problem)
} - {problems.Problem}

with override("en"):  # REST framework translates what it says
    _TOLD = sorted(
        [(each.code, each.status_code, str(each.__doc__)) for each in _OURS]
        + [(each.default_code, each.status_code, str(each.default_detail)) for each in _OTHERS]
    )

    _EXAMPLES: dict[int, exceptions.APIException] = {
        each.status_code: each
        for each in (
            problems.invalid(
                "messages[1].contents[0].text",
                "expected %(expected)s, got %(got)s",
                code="invalid_type",
                expected="a string",
                got="a number",
            ),
            exceptions.NotAuthenticated(),
            exceptions.PermissionDenied("CSRF Failed: CSRF token missing."),
            problems.NotFound(),
            problems.NotExpressible(problem="message 0 (CUSTOM): OpenAI has no such messages"),
            problems.Conflict(
                members={"conversation": "https://example.com/api/conversations/01935c5e-0000-7000-8000-000000000001/"},
                memory_id="'support-42'",
            ),
            problems.LengthRequired(),
            problems.PreconditionFailed(members={"version": 7, "etag": '"7"'}),
            problems.TooLarge(count=101, most=100),
            exceptions.UnsupportedMediaType("text/plain"),
            problems.IdempotencyConflict(
                "idempotency key %(key)s was used before, with another request; take a new key", key="'a'"
            ),
            exceptions.Throttled(wait=12),
            problems.NotMigrated(),
            problems.SummarizerFailed(TimeoutError(), None),
            problems.Unavailable(),
        )
    }

_CODES = dict.fromkeys(code for code, _status, _detail in _TOLD)

_WAITS = {each.status_code for each in _OURS if hasattr(each, "wait")} | {429}

_PARAMS: Schema = {
    "type": "object",
    "additionalProperties": True,
    "description": "The values in `detail` by name, for messages of your own. Errors of REST framework have none.",
}

PROBLEM = closed(
    {
        "type": text("`urn:chatmemory:problem:` and then `code`, with hyphens; or about:blank."),
        "title": text("The phrase of the status, in English."),
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": text(
            f"What went wrong, for programs, who can rely on it: {', '.join(_CODES)}, or a code of the project's own."
        ),
        "detail": text("What is wrong, for people. If readers of a chat meet it, it is translated."),
        "params": _PARAMS,
    },
    {
        "errors": list_of(
            closed(
                {
                    "place": text("Such as messages[1].contents[0].text; empty for the whole."),
                    "code": text(f"What is wrong with the value, for programs: {', '.join(sorted(CODES))}."),
                    "detail": text(),
                    "params": _PARAMS,
                }
            ),
            "If `code` is `invalid`: each value that is wrong.",
        ),
        "conversation": text("The one that has a memory_id that is taken.", format="uri"),
        "version": {"type": "integer", "description": "With status 412: of the memory now."},
        "etag": text("With status 412: the ETag to send now."),
        "retry_at": or_null(
            text("With status 502: a summary that is due is not tried again before.", format="date-time")
        ),
    },
    "Something is wrong (RFC 9457).",
)


def problem_response(status: int) -> tuple[str, Schema]:
    """Return the name and the schema of the response to all errors of a status."""
    told = [(code, detail) for code, of, detail in _TOLD if of == status]
    title = problems.TITLES[status]
    with override("en"):
        example = problems.problem_body(_EXAMPLES[status])
    # Of the conflicts of a turn only one is over after a while.
    retry_after = {**ANSWER_HEADERS["Retry-After"], "required": status != HTTPStatus.CONFLICT}
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {"Example": {"value": example}}}
    return title.replace(" ", ""), {
        "description": " ".join(f"`{code}`: {detail}" for code, detail in told),
        **({"headers": {"Retry-After": retry_after}} if status in _WAITS else {}),
        "content": {problems.PROBLEM_JSON: content},
    }
