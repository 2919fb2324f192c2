"""The parts of the document that calls share: parameters, headers, and the responses to errors.

Parameters of filters are made from the filters. The errors are RFC 9457 problem details; their classes say which there
are.
"""

from __future__ import annotations

import inspect
import re
from copy import deepcopy
from http import HTTPStatus
from itertools import starmap
from typing import Any

from django.db.models import PositiveIntegerField
from django.utils.translation import override
from django_filters import rest_framework as filters
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from rest_framework import exceptions, serializers
from rest_framework.permissions import SAFE_METHODS

from chatmemory.conf import setting
from chatmemory.core.exceptions import CODES
from chatmemory.formats.registry import BUILT_IN, message_formats, one_for_one
from chatmemory.formats.schemas import Schema, closed, list_of, or_null, text
from chatmemory.models import MAX_LIMIT
from chatmemory.rest import problems
from chatmemory.rest.serializers import StrictSerializer
from chatmemory.rest.turns import taking as turn_problems
from chatmemory.rest.urls import ROUTES
from chatmemory.rest.views.viewset import Call

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
    parameter("message_id", "path", text(minLength=1, maxLength=255), "The ID of the UI message.", example="answer-0"),
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
    # Of the conflicts of a turn only one is over after a while.
    retry_after = {**ANSWER_HEADERS["Retry-After"], "required": status != HTTPStatus.CONFLICT}
    return title.replace(" ", ""), {
        "description": " ".join(f"`{code}`: {detail}" for code, detail in told),
        **({"headers": {"Retry-After": retry_after}} if status in _WAITS else {}),
        "content": {problems.PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


VIEWS: list[Any] = list(dict.fromkeys(callback.cls for _, _, callback, _ in ROUTES))

# Where the answer of what makes something says the parameter of the routes below its own.
_MADE = {"conversation_id": "$response.body#/id", "position": "$response.body#/added/0/position"}

_EVENT_STREAM: Schema = {
    "type": "object",
    "description": "A server-sent event of the AI SDK's UI message stream, version 1. The last one has `[DONE]`. A "
    "comment comes while nothing else does.",
    "properties": {"data": text("A part as JSON: start, text-delta, data-memory, finish and so on.")},
    "required": ["data"],
}

_PROBLEMS = {400, 401, 403, 404, 406, 429, 503}
_WITH_BODY = {411, 413, 415}
_WITH_HEADER = {"If-Match": 412, "Idempotency-Key": 422}

_READ = {"format", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "items", "default"}

# A character that REST framework does not take off. JavaScript's \S would be others: U+001D and U+FEFF, say.
_NOT_TRIMMED = r"[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


class ChatMemorySchema(AutoSchema):
    """Describes the views of this app, in its own document as in that of a project.

    In what a method ``openapi`` returns, ``{"$ref": "ChatMessage"}`` and a serializer's class stand for components.
    """

    view: Any

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> Any:
        # A copy: hooks of a project change what they get.
        return deepcopy(super().get_operation(path, path_regex, path_prefix, method, registry))

    @property
    def _call(self) -> Call:
        declared: Call = self.view.call
        return declared

    def get_operation_id(self) -> str:
        return self._call.id

    def get_summary(self) -> str:
        return self._documented()[0].removesuffix(".")

    def get_description(self) -> str:  # type: ignore[override]  # so has drf-spectacular
        users = self._call.users
        if users is True:
            return " ".join(self._documented()[1:])
        most = "may not call it" if not users else f"may send {' and '.join(f'`{name}`' for name in users)} only"
        return " ".join([*self._documented()[1:], f"Users {most}, unless the site's `USERS` is `all`."])

    def get_tags(self) -> list[str]:
        return [self.view.tag]

    def _documented(self) -> list[str]:
        return text_of(getattr(self.view, self.view.action)).split("\n")

    def _get_parameters(self) -> list[Schema]:
        call = self._call
        found = [PARAMETERS[name] for name in (*_names(self.path), "owner")]
        found += [parameter(name, "query", self._field(field)) for name, field in call.parameters.items()]
        if call.streams or _has_messages(call.body) or _has_messages(call.answer):
            is_read = self.method not in SAFE_METHODS
            names = list(message_formats()) if call.whole_memory else one_for_one(readable=is_read)
            found.append(format_parameter(names))
        if self.view.action == "list":
            found += starmap(filter_parameter, self.view.filterset_class.base_filters.items())
            found += list_parameters(self.view)
        return found + [PARAMETERS[name] for name in call.headers if name in PARAMETERS]

    def _get_request_body(self, direction: str = "request") -> Schema | None:
        body = self._call.body
        if body is None:
            return None
        found = self.resolve_serializer(body, "response")  # type: ignore[arg-type]  # it takes any
        schemas = found.schema.get("anyOf", [found.schema])
        is_needed = all("required" in schema or "properties" not in schema for schema in schemas)
        example = self._call.example
        examples = {} if example is None else {"examples": {"Example": {"value": example}}}
        return {"required": is_needed, "content": {"application/json": {"schema": found.ref, **examples}}}

    def _get_response_bodies(self, direction: str = "response") -> Schema:
        call = self._call
        status = HTTPStatus.OK if call.answer or call.streams else HTTPStatus.NO_CONTENT
        if call.creates:
            status = HTTPStatus.CREATED
        answer: Schema = {"description": status.phrase}
        headers = {name: ANSWER_HEADERS[name] for name in call.headers if name in ANSWER_HEADERS}
        if headers:
            answer["headers"] = headers
        if call.answer:
            answer["content"] = {"application/json": {"schema": self._ref(call.answer)}}
        if call.streams:
            streamed = {"text/event-stream": {"schema": self._component("EventStream")}}
            answer["content"] = {**answer.get("content", {}), **streamed}
        found = self._links()
        responses = {str(status.value): {**answer, **({"links": found} if found else {})}}
        for code, meaning in call.statuses.items():
            responses[str(code)] = {**(answer if code != HTTPStatus.NO_CONTENT else {}), "description": meaning}
        if "If-None-Match" in call.headers:
            responses["304"] = {"description": "There is nothing newer.", "headers": headers}
        problems = _PROBLEMS.union(call.problems, _WITH_BODY if call.body else ())
        problems |= {code for name, code in _WITH_HEADER.items() if name in call.headers}
        return responses | {str(code): self._problem(code) for code in sorted(problems)}

    def _links(self) -> Schema:
        """Return the links from the answer of the call.

        From what was made they lead to the routes below; from what was read, to what changes it unless it was changed.
        """
        call, action = self._call, self.view.action
        own = next(path for path, _, _, other in ROUTES if other is call)
        same = {name: f"$request.path.{name}" for name in _names(own)}
        found: Schema = {}
        for path, _, _, other in ROUTES:
            new = _names(path)[len(same) :]
            if call.creates and path.startswith(own) and len(new) == 1:
                parameters = {**same, new[0]: _MADE[new[0]]}
            elif call.creates and not same and "memory_id" in new:
                parameters = {"memory_id": "$response.body#/memory_id"}
            elif action == "retrieve" and "ETag" in call.headers and path == own and "If-Match" in other.headers:
                parameters = {**same, "If-Match": "$response.header.ETag"}
            else:
                continue
            found[other.id] = {"operationId": other.id, "parameters": parameters}
        return found

    def _problem(self, status: int) -> Schema:
        self._component("Problem")
        name, response = problem_response(status)
        component = ResolvedComponent(name, ResolvedComponent.RESPONSE, response, object=ChatMemorySchema)
        self.registry.register_on_missing(component)
        return {"$ref": f"#/components/responses/{name}"}

    def _component(self, name: str) -> Schema:
        component = ResolvedComponent(name, ResolvedComponent.SCHEMA, object=ChatMemorySchema)
        if component not in self.registry:
            self.registry.register(component)  # first, because it may refer to itself
            known = {"Problem": PROBLEM, "EventStream": _EVENT_STREAM}
            for format in (*BUILT_IN.values(), *message_formats().values()):
                known |= format.schemas
            component.schema = self._resolved(known[name])
        return {"$ref": f"#/components/schemas/{name}"}

    def _ref(self, serializer: Any) -> Schema:
        found: Schema = self.resolve_serializer(serializer, "response").ref
        return found

    def _resolved(self, schema: Any) -> Any:
        """Return a schema with the components that it refers to, which are registered."""
        if isinstance(schema, dict):
            if isinstance(schema.get("$ref"), str):
                return self._component(schema["$ref"])
            return {key: self._resolved(value) for key, value in schema.items()}
        if isinstance(schema, list):
            return [self._resolved(each) for each in schema]
        return self._ref(schema) if isinstance(schema, type) else schema

    def _map_serializer(self, serializer: Any, direction: str, bypass_extensions: bool = False) -> Schema:
        """Return the schema of a serializer, independent of the project's settings for drf-spectacular."""
        description = text_of(type(serializer))
        if hasattr(serializer, "openapi"):
            return {"description": description, **self._resolved(serializer.openapi())}
        fields = _described(serializer)
        with override("en"):  # some help texts are translated, the rest of the document is not
            properties = {name: self._field(field) for name, field in fields.items()}
        for name, bounds in serializer.bounds().items() if hasattr(serializer, "bounds") else ():
            properties[name] |= bounds
        if isinstance(serializer, StrictSerializer):
            required = {name: properties[name] for name, field in fields.items() if field.required}
        else:
            sometimes = getattr(serializer, "sometimes", ())
            required = {name: schema for name, schema in properties.items() if name not in sometimes}
        optional = {name: schema for name, schema in properties.items() if name not in required}
        return closed(required, optional, description)

    def _field(self, field: Any) -> Schema:
        description = {"description": str(field.help_text)} if field.help_text else {}
        if hasattr(field, "openapi"):
            schema = self._resolved(field.openapi())
        elif isinstance(field, serializers.ListSerializer):
            schema = list_of(self._ref(field.child))
        elif isinstance(field, serializers.Serializer):
            schema = or_null(self._ref(field)) if field.allow_null else self._ref(field)
        elif isinstance(field, serializers.ListField):
            schema = list_of(self._field(field.child), maxItems=field.max_length, default=[])
        else:
            read = self._map_serializer_field(field, "response")
            self._insert_field_validators(field, read)
            schema = _simple(field, read)
        return {**description, **schema}


def text_of(described: Any) -> str:
    """Return the docstring of a view, a method or a serializer: each paragraph in a line."""
    paragraphs = (inspect.getdoc(described) or "").split("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _described(serializer: Any) -> dict[str, Any]:
    is_body, hidden = isinstance(serializer, StrictSerializer), getattr(serializer, "undescribed", ())
    return {
        name: field
        for name, field in serializer.fields.items()
        if name not in hidden and not (is_body and field.read_only)
    }


def _has_messages(described: Any) -> bool:
    """Return whether a serializer or a field has messages in a format that can be asked for."""
    if described is None:
        return False
    field = described() if isinstance(described, type) else described
    children = [field.child] if hasattr(field, "child") else getattr(field, "fields", {}).values()
    return getattr(field, "in_format", False) or any(map(_has_messages, children))


def _simple(field: Any, read: Schema) -> Schema:
    types = read.get("type", "object")  # JSON may be anything to drf-spectacular
    schema = {"type": types if isinstance(types, str) else types[0]}
    schema |= {key: value for key, value in read.items() if key in _READ}
    if "enum" in schema:
        schema["enum"] = [value for value in schema["enum"] if value is not None]
    if isinstance(field, serializers.JSONField):
        schema["additionalProperties"] = True
    if isinstance(field, serializers.IntegerField) and field.read_only:
        # REST framework knows bounds only of what can be written.
        serializer: Any = field.parent
        column = serializer.Meta.model._meta.get_field(field.source)
        schema |= {"minimum": 0, **({"maximum": MAX_LIMIT} if isinstance(column, PositiveIntegerField) else {})}
    if isinstance(field, serializers.CharField) and not (field.read_only or field.allow_blank):
        schema |= {"minLength": 1, **({"pattern": _NOT_TRIMMED} if field.trim_whitespace else {})}
    # OpenAPI 3.0 and 3.1 say it in two ways; which one, is a setting.
    return or_null(schema) if read.get("nullable") or "null" in types else schema
