"""The parts of the document that calls share: parameters, headers, and the responses to errors.

Parameters of filters are made from the filters. The errors are RFC 9457 problem details; their classes say which there
are.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.utils.translation import override
from django_filters import rest_framework as filters
from rest_framework import exceptions

from chatmemory.conf import setting
from chatmemory.core.exceptions import CODES
from chatmemory.formats.schemas import Schema, closed, list_of, or_null, text
from chatmemory.models import MAX_LIMIT
from chatmemory.rest import problems
from chatmemory.rest.turns import problems as turn_problems

_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_LIMIT}
_TAGS = r'(W/)?"[^",]*"'  # Django takes a comma for the end of a tag


def parameter(name: str, place: str, schema: Schema, description: str = "", **more: Any) -> Schema:
    """Return a parameter; its description may be that of the schema."""
    required = {"required": True} if place == "path" else {}
    said = {"description": description or schema.pop("description")}
    return {"name": name, "in": place, **required, **said, "schema": schema, **more}


def _header(schema: Schema, description: str) -> Schema:
    return {"description": description, "required": True, "schema": schema}


_PARAMETERS = [
    parameter(
        "conversation_id",
        "path",
        {"type": "string", "format": "uuid"},
        "The `id` of the conversation.",
        example="01935c5e-0000-7000-8000-000000000001",
    ),
    parameter("position", "path", _COUNT, "The position of the message.", example=0),
    parameter(
        "memory_id",
        "path",
        text(minLength=1, maxLength=255),
        "The `memory_id` of the conversation, percent-encoded; it may hold slashes.",
        example="support-42",
    ),
    parameter(
        "owner",
        "query",
        text(minLength=1),
        "For staff with the permissions of the admin: the primary key of the owner of the conversations. `*` means all "
        "owners, except where a conversation is created or named by its memory ID. Reading what messages say needs "
        "`read_message_text`, and writing messages `write_message_text`, too. What staff read and change is recorded.",
    ),
    parameter(
        "Idempotency-Key",
        "header",
        text(minLength=1, maxLength=255, pattern="^[!-~]([ -~]*[!-~])?$"),
        "Anything that is unique to this request, a UUID say. The request can then be repeated when its answer was "
        "lost: the same key never does the same twice, and is answered as it was the first time.",
        example="0b7a6a5e-6a43-4f3c-8d5c-0d9a1c9be5a1",
    ),
    parameter(
        "If-Match",
        "header",
        text(pattern=rf"^(\*|{_TAGS}(, *{_TAGS})*)$"),
        'The `ETag` that you have seen, or the `version` in quotes: `"7"`. Nothing is changed if it moved since.',
        example='"7"',
    ),
    parameter(
        "If-None-Match",
        "header",
        text(),
        "The `ETag` that you have; 304 if there is nothing newer.",
        example='"7.0123456789abcdef"',
    ),
]
PARAMETERS = {each["name"]: each for each in _PARAMETERS}

ANSWER_HEADERS = {
    "ETag": _header(text(pattern='^"[0-9]+[.][0-9a-f]{16}"$'), "Which state this is."),
    "Location": _header({"type": "string", "format": "uri"}, "Of the conversation."),
    "Retry-After": _header({"type": "integer", "minimum": 0}, "Seconds to wait."),
}


def format_parameter(formats: list[str]) -> Schema:
    """Return the choice of a message format."""
    schema = text(enum=formats, default=formats[0])
    return parameter("format", "query", schema, "How messages are written, in the request as in the answer.")


def list_parameters(view: Any) -> list[Schema]:
    """Return the order and the pages of a list."""
    orders = [sign + name for name in view.ordering_fields for sign in ("", "-")]
    return [
        parameter(
            "ordering", "query", text(enum=orders, default=view.ordering[0]), "By what; with `-` the largest first."
        ),
        parameter("cursor", "query", text(), "Where the page begins: follow `next` and `previous`, do not make one."),
        parameter(
            "page_size",
            "query",
            {"type": "integer", "minimum": 1, "default": setting("PAGE_SIZE")},
            f"How many there are on a page; at most {setting('MAX_PAGE_SIZE')}, which is what larger numbers mean.",
        ),
    ]


def filter_parameter(name: str, each: Any) -> Schema:
    """Return the parameter of a filter."""
    description = each.extra.get("help_text") or _BOUNDS[each.lookup_expr].format(each.field_name)
    more: Schema = {"allowEmptyValue": True}  # which filters nothing
    if isinstance(each, filters.ChoiceFilter):
        schema = text(enum=[value for value, _label in each.extra["choices"]])
    elif isinstance(each, filters.BooleanFilter):
        schema = {"type": "boolean"}
    elif isinstance(each, filters.IsoDateTimeFilter):
        schema = text(format="date-time")
    elif isinstance(each, filters.NumberFilter):
        schema = _COUNT
    else:
        schema = text(maxLength=each.extra["max_length"])
    if isinstance(each, filters.BaseCSVFilter):
        schema = list_of(schema, minItems=1)
        more |= {"style": "form", "explode": False}
    return parameter(name, "query", schema, description, **more)


_BOUNDS = {"gte": "`{}` at this or later.", "lte": "`{}` at this or earlier.", "lt": "`{}` before this."}

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

_MODULES = {problems.__name__, turn_problems.__name__}
_OURS = [each for each in problems.Problem.__subclasses__() if each.__module__ in _MODULES]  # a project may have others

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
