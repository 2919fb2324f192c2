"""Parameters and headers. Those of filters are made from the filters."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters

from chatmemory.conf import setting
from chatmemory.formats.json_schema import Schema, list_of, text
from chatmemory.models import MAX_LIMIT

__all__ = ["ANSWER_HEADERS", "PARAMETERS", "filter_parameters", "format_parameter", "list_parameters", "parameter"]

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


def filter_parameters(filterset: type[filters.FilterSet]) -> list[Schema]:
    """Return one for each filter."""
    return [_filter(name, each) for name, each in filterset.base_filters.items()]


def _filter(name: str, each: Any) -> Schema:
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
